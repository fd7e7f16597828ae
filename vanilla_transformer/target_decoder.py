"""Writes targets one word at a time: any number of beams for each source, nothing computed twice.

Two things make it lean. A source's keys and values exist once, however many beams look at them.
And what the beams have written is never copied when they change places: every beam of every step
keeps its slot in one memory, and a mask tells which slots hold a beam's ancestors.
"""

from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .packed_linear import TorchProduct

FIRST_STEPS = 32  # of memory; it doubles when they are used up
COLUMNS = 128  # the projection to words has a multiple of so many, for chunks of equal size


class PackedLayer:
    """A decoder layer's weights, laid out for products with a few rows."""

    def __init__(self, layer: Any, way: type[TorchProduct]) -> None:
        own, source = layer.self_attn, layer.encoder_attn
        self.width = max(own.key_width, own.value_width)  # zeros make keys and values as wide
        self.heads = own.q_proj.out_features // own.key_width
        self.qkv = way(
            *_joined(self._query(own), self._widened(own.k_proj), self._widened(own.v_proj))
        )
        self.out = way(*self._out(own))
        self.source_query = way(*self._query(source))
        self.source_kv = way(*_joined(self._widened(source.k_proj), self._widened(source.v_proj)))
        self.source_out = way(*self._out(source))
        self.fc1 = way(layer.fc1.weight, layer.fc1.bias)
        self.fc2 = way(layer.fc2.weight, layer.fc2.bias)
        self.norms = [
            partial(
                torch.layer_norm,
                normalized_shape=norm.normalized_shape,
                weight=norm.weight,
                bias=norm.bias,
                eps=norm.eps,
            )
            for norm in (
                layer.self_attn_layer_norm,
                layer.encoder_attn_layer_norm,
                layer.final_layer_norm,
            )
        ]
        self.activation = layer.activation
        self.is_rectified = isinstance(layer.activation, nn.ReLU)

    def inner(self, states: Tensor) -> Tensor:
        """The wide layer of the feed-forward network."""
        return (
            self.fc1.rectified(states) if self.is_rectified else self.activation(self.fc1(states))
        )

    def by_head(self, rows: Tensor, sentences: int) -> Tensor:
        """`[kinds, sentences, heads, words, width]` from rows `[sentences * words, ...]`.

        Kinds are what was projected at once: queries, keys, values.
        """
        split = rows.to(memory_type(rows)).view(
            sentences, len(rows) // sentences, -1, self.heads, self.width
        )
        return split.permute(2, 0, 3, 1, 4)

    def attend(self, query: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        """Softmax(q k + mask) v of scaled queries `[sentences, heads, queries, width]`.

        The memory is `[2, sentences * heads, length, width]`, the mask is for what a product of
        queries and keys gives. Returns rows `[sentences * queries, heads * width]`.
        """
        keys, values = memory.unbind(0)
        flat = query.reshape(len(keys), -1, self.width)
        keys = keys.transpose(1, 2)
        scores = torch.bmm(flat, keys) if mask is None else torch.baddbmm(mask, flat, keys)
        attended = torch.bmm(torch.softmax(scores, dim=-1), values)
        return attended.view(query.shape).transpose(1, 2).reshape(-1, self.heads * self.width)

    def _query(self, attention: Any) -> tuple[Tensor, Tensor]:
        """The projection times the scale of the scores: one product less for each step."""
        weight, bias = self._widened(attention.q_proj)
        return weight * attention.scaling, bias * attention.scaling

    def _widened(self, projection: Any) -> tuple[Tensor, Tensor]:
        """A projection to heads of this width."""
        weight, bias = projection.weight, projection.bias
        missing = self.width - len(bias) // self.heads
        weight = functional.pad(weight.view(self.heads, -1, weight.shape[1]), (0, 0, 0, missing))
        bias = functional.pad(bias.view(self.heads, -1), (0, missing))
        return weight.flatten(0, 1), bias.flatten()

    def _out(self, attention: Any) -> tuple[Tensor, Tensor]:
        """The projection from heads of this width."""
        weight, bias = attention.out_proj.weight, attention.out_proj.bias
        missing = self.width - weight.shape[1] // self.heads
        return functional.pad(weight.view(len(bias), self.heads, -1), (0, missing)).flatten(1), bias


class PackedDecoder:
    """All that a decoder and its projection to words need, laid out once for many translations."""

    def __init__(self, decoder: Any, lm_head: Any, way: type[TorchProduct]) -> None:
        self.words, self.scale = decoder.embed_tokens.weight, decoder.embed_scale
        self.position = cache(partial(_position, decoder.embed_positions, self.words))
        self.layers = [PackedLayer(layer, way) for layer in decoder.layers]
        self.vocab_size = lm_head.out_features
        missing = -self.vocab_size % COLUMNS
        weight = functional.pad(lm_head.weight, (0, 0, 0, missing))
        bias = weight.new_zeros(len(weight))
        bias[self.vocab_size :] = torch.finfo(bias.dtype).min  # words that nobody can say
        self.head = way(weight, bias)

    def embed(self, words: Tensor, step: int) -> Tensor:
        """The vectors of the words that all stand at one place."""
        return torch.embedding(self.words, words) * self.scale + self.position(step)


class Memory:
    """The keys and values that one layer has written: a slot for each beam of each step."""

    def __init__(self) -> None:
        self.slots: Tensor | None = None  # [2, sentences, heads, slots, width]

    def write(self, states: Tensor, start: int) -> Tensor:
        """Add keys and values `[2, sentences, heads, beams, width]` at slot `start`.

        Returns all that is written, `[2, sentences * heads, slots, width]`.
        """
        beams = states.shape[3]
        if self.slots is None:
            self.slots = _memory_like(states, FIRST_STEPS * beams)
        elif start + beams > self.slots.shape[3]:
            before = self.slots
            self.slots = _memory_like(states, max(FIRST_STEPS * beams, 2 * before.shape[3]))
            self.slots.narrow(3, 0, start).copy_(before.narrow(3, 0, start))
        self.slots.narrow(3, start, beams).copy_(states)
        return self.slots.flatten(1, 2).narrow(2, 0, start + beams)

    def keep(self, sentences: Tensor) -> None:
        """Forget all other sentences; those that stay where they are cost nothing."""
        assert self.slots is not None
        self.slots = _moved_up(self.slots, sentences)


class TargetDecoder:
    """The decoder at work on a batch of sources, each with as many beams as there are words."""

    def __init__(self, packed: PackedDecoder, source: Tensor, source_mask: Tensor | None) -> None:
        self.packed, self.steps = packed, 0
        self.memories = [Memory() for _ in packed.layers]
        self.source_memories = [_source_memory(layer, source) for layer in packed.layers]
        dtype = memory_type(source)
        self.source_mask = None  # [sentences * heads, 1, source_len], added to scores
        if source_mask is not None and not source_mask.all():
            hidden = torch.zeros(source_mask.shape, dtype=dtype, device=source.device)
            hidden = hidden.masked_fill_(source_mask == 0, torch.finfo(dtype).min)
            self.source_mask = hidden.repeat_interleave(packed.layers[0].heads, 0).unsqueeze(1)
        # [sentences, beams, slots]: 0 at a beam's ancestors, the most negative number elsewhere
        self.ancestry = source.new_empty(len(source), 1, 0, dtype=dtype)

    def step(self, words: Tensor) -> Tensor:
        """What the head projects to the words after these `[sentences, beams]`: a row for each."""
        sentences, beams = words.shape
        start = self.ancestry.shape[2]
        self._add_slots(beams)
        mask = self._mask()
        states = self.packed.embed(words.flatten(), self.steps)
        for layer, memory, source in zip(
            self.packed.layers, self.memories, self.source_memories, strict=True
        ):
            norms = layer.norms
            projected = layer.by_head(layer.qkv(states), sentences)
            written = memory.write(projected.narrow(0, 1, 2), start)
            attended = layer.attend(projected.select(0, 0), written, mask)
            states = norms[0](layer.out.added_to(states, attended.to(states)))
            query = layer.by_head(layer.source_query(states), sentences).select(0, 0)
            attended = layer.attend(query, source, self.source_mask)
            states = norms[1](layer.source_out.added_to(states, attended.to(states)))
            states = norms[2](layer.fc2.added_to(states, layer.inner(states)))
        self.steps += 1
        return states

    def follow(self, parents: Tensor) -> None:
        """Beam b of a sentence goes on from beam `parents[sentence, b]`: it gets its ancestors."""
        places = parents.unsqueeze(-1).expand(-1, -1, self.ancestry.shape[2])
        self.ancestry = self.ancestry.gather(1, places)

    def keep(self, sentences: Tensor) -> None:
        """Forget all other sentences."""
        before = len(self.ancestry)
        self.ancestry = self.ancestry.index_select(0, sentences)
        for memory in self.memories:
            memory.keep(sentences)
        self.source_memories = [
            _moved_up(memory.unflatten(1, (before, -1)), sentences).flatten(1, 2)
            for memory in self.source_memories
        ]
        if self.source_mask is not None:
            self.source_mask = _sentences_of(self.source_mask, before, sentences)

    def _add_slots(self, beams: int) -> None:
        """Slots for the words of this step: each is seen by the beam that wrote it."""
        hidden = self.ancestry.new_full((beams, beams), torch.finfo(self.ancestry.dtype).min)
        own = hidden.fill_diagonal_(0).expand(len(self.ancestry), -1, -1)
        self.ancestry = torch.cat([self.ancestry, own], dim=2)

    def _mask(self) -> Tensor | None:
        """What hides other beams' words, `[sentences * heads, beams, slots]`.

        Nothing where each step had one beam.
        """
        if self.ancestry.shape[2] == self.steps + 1:
            return None
        heads = self.packed.layers[0].heads
        return self.ancestry.unsqueeze(1).expand(-1, heads, -1, -1).flatten(0, 1)


def _memory_like(states: Tensor, slots: int) -> Tensor:
    kinds, sentences, heads, _, width = states.shape
    # One slot more: heads that lie a power of two apart would share the same places of a cache.
    return states.new_empty(kinds, sentences, heads, slots + 1, width)


def memory_type(states: Tensor) -> torch.dtype:
    """On a CPU at least float32: its 16-bit products copy matrices that do not lie together."""
    is_cpu = states.device.type == "cpu"
    return torch.promote_types(states.dtype, torch.float32) if is_cpu else states.dtype


def _moved_up(memory: Tensor, kept: Tensor) -> Tensor:
    """`[2, sentences, ...]` without all but the kept sentences, which come in rising order.

    Long sentences come first and end last: most of the kept are where they will be.
    """
    places = torch.arange(len(kept), device=kept.device)
    moved = kept != places
    memory[:, places[moved]] = memory[:, kept[moved]]
    return memory.narrow(1, 0, len(kept))


def _sentences_of(tensor: Tensor, sentences: int, kept: Tensor) -> Tensor:
    """What `[sentences * heads, ...]` holds of the kept sentences."""
    return tensor.view(sentences, -1, *tensor.shape[1:]).index_select(0, kept).flatten(0, 1)


def _position(encoding: Any, like: Tensor, step: int) -> Tensor:
    return encoding(torch.tensor([step], device=like.device)).to(like)


def _source_memory(layer: PackedLayer, source: Tensor) -> Tensor:
    """The source's keys and values `[2, sentences * heads, source_len, width]`."""
    states = layer.by_head(layer.source_kv(source.flatten(0, 1)), len(source))
    return states.contiguous().flatten(1, 2)


def _joined(*projections: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Several projections of the same rows as one, which reads the rows once."""
    weights, biases = zip(*projections, strict=True)
    return torch.cat(weights), torch.cat(biases)
