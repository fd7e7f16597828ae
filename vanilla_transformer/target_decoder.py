"""Writes targets one word at a time: any number of beams for each source, nothing computed twice.

Two things make it lean. A source's keys and values exist once, however many beams look at them.
And what the beams have written is never copied when they change places: every beam of every step
keeps its slot in one memory, and a mask tells which slots hold a beam's ancestors.
"""

from functools import partial
from itertools import chain
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
        self.qkv = way(*_joined(_scaled(own), own.k_proj, own.v_proj))
        self.widths = [own.q_proj.out_features, own.k_proj.out_features, own.v_proj.out_features]
        self.out = way(own.out_proj.weight, own.out_proj.bias)
        self.source_query = way(*_scaled(source))
        self.source_kv = way(*_joined(source.k_proj, source.v_proj))
        self.source_out = way(source.out_proj.weight, source.out_proj.bias)
        self.fc1 = way(layer.fc1.weight, layer.fc1.bias)
        self.fc2 = way(layer.fc2.weight, layer.fc2.bias)
        self.key_width, self.value_width = own.key_width, own.value_width
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


class PackedDecoder:
    """All that a decoder and its projection to words need, laid out once for many translations."""

    def __init__(self, decoder: Any, lm_head: Any, way: type[TorchProduct]) -> None:
        self.decoder = decoder
        self.layers = [PackedLayer(layer, way) for layer in decoder.layers]
        self.vocab_size = lm_head.out_features
        missing = -self.vocab_size % COLUMNS
        weight = functional.pad(lm_head.weight, (0, 0, 0, missing))
        bias = weight.new_zeros(len(weight))
        bias[self.vocab_size :] = torch.finfo(bias.dtype).min  # words that nobody can say
        self.head = way(weight, bias)


class Memory:
    """The keys, or the values, that one layer has written: a slot for each beam of each step."""

    def __init__(self) -> None:
        self.slots: Tensor | None = None  # [sentences, heads, slots, width]

    def write(self, states: Tensor, start: int) -> Tensor:
        """Add `[sentences, heads, beams, width]` at slot `start`.

        Returns all that is written, `[sentences * heads, slots, width]`.
        """
        sentences, heads, beams, width = states.shape
        room = FIRST_STEPS * beams
        if self.slots is None:
            self.slots = states.new_empty(sentences, heads, room, width)
        elif start + beams > self.slots.shape[2]:
            self.slots = functional.pad(self.slots, (0, 0, 0, max(room, self.slots.shape[2])))
        self.slots.narrow(2, start, beams).copy_(states)
        return self.slots.view(-1, self.slots.shape[2], width).narrow(1, 0, start + beams)

    def keep(self, sentences: Tensor) -> None:
        assert self.slots is not None
        self.slots = self.slots.index_select(0, sentences)


class TargetDecoder:
    """The decoder at work on a batch of sources, each with as many beams as there are words."""

    def __init__(self, packed: PackedDecoder, source: Tensor, source_mask: Tensor | None) -> None:
        self.packed, self.steps = packed, 0
        self.memories = [(Memory(), Memory()) for _ in packed.layers]
        self.source_memories = [_source_memory(layer, source) for layer in packed.layers]
        self.source_mask = None  # [sentences, 1, 1, source_len], added to scores
        if source_mask is not None and not source_mask.all():
            floor = torch.finfo(source.dtype).min
            hidden = torch.zeros(source_mask.shape, dtype=source.dtype, device=source.device)
            self.source_mask = hidden.masked_fill_(source_mask == 0, floor)[:, None, None]
        # [sentences, beams, slots]: 0 at a beam's ancestors, the most negative number elsewhere
        self.ancestry = source.new_empty(len(source), 1, 0)

    def step(self, words: Tensor) -> Tensor:
        """Logits `[sentences * beams, columns]` of the words after these, `[sentences, beams]`."""
        beams, start = words.shape[1], self.ancestry.shape[2]
        mask = self._add_slots(beams)
        states = self._embed(words.flatten())
        for layer, memory, source in zip(
            self.packed.layers, self.memories, self.source_memories, strict=True
        ):
            norms = layer.norms
            query, key, value = layer.qkv(states).split(layer.widths, dim=-1)
            keys = memory[0].write(_heads(key, beams, layer.key_width), start)
            values = memory[1].write(_heads(value, beams, layer.value_width), start)
            attended = _attend(_heads(query, beams, layer.key_width), keys, values, mask)
            states = norms[0](layer.out.added_to(states, attended))
            query = _heads(layer.source_query(states), beams, layer.key_width)
            attended = _attend(query, *source, self.source_mask)
            states = norms[1](layer.source_out.added_to(states, attended))
            states = norms[2](layer.fc2.added_to(states, layer.inner(states)))
        self.steps += 1
        return self.packed.head(states)

    def follow(self, parents: Tensor) -> None:
        """Beam b of a sentence goes on from beam `parents[sentence, b]`: it gets its ancestors."""
        places = parents.unsqueeze(-1).expand(-1, -1, self.ancestry.shape[2])
        self.ancestry = self.ancestry.gather(1, places)

    def keep(self, sentences: Tensor) -> None:
        """Forget all other sentences."""
        before = len(self.ancestry)
        self.ancestry = self.ancestry.index_select(0, sentences)
        for memory in chain.from_iterable(self.memories):
            memory.keep(sentences)
        self.source_memories = [
            (_rows_of(keys, sentences, before), _rows_of(values, sentences, before))
            for keys, values in self.source_memories
        ]
        if self.source_mask is not None:
            self.source_mask = self.source_mask.index_select(0, sentences)

    def _add_slots(self, beams: int) -> Tensor | None:
        """Slots for the words of this step, and the mask; none where each step had one beam."""
        hidden = self.ancestry.new_full((beams, beams), torch.finfo(self.ancestry.dtype).min)
        own = hidden.fill_diagonal_(0).expand(len(self.ancestry), -1, -1)
        self.ancestry = torch.cat([self.ancestry, own], dim=2)
        return self.ancestry.unsqueeze(1) if self.ancestry.shape[2] > self.steps + 1 else None

    def _embed(self, words: Tensor) -> Tensor:
        decoder = self.packed.decoder
        position = torch.tensor([self.steps], device=words.device)
        embeddings = functional.embedding(words, decoder.embed_tokens.weight)
        return embeddings * decoder.embed_scale + decoder.embed_positions(position).to(embeddings)


def _heads(rows: Tensor, beams: int, width: int) -> Tensor:
    """`[sentences, heads, beams, width]` from rows `[sentences * beams, heads * width]`."""
    return rows.view(-1, beams, rows.shape[-1] // width, width).transpose(1, 2)


def _attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax(q k + mask) v of scaled queries `[sentences, heads, beams, width]`.

    Keys and values are `[sentences * heads, length, width]`; returns rows
    `[sentences * beams, heads * width]`.
    """
    sentences, heads, beams, width = query.shape
    scores = torch.bmm(query.reshape(-1, beams, width), keys.transpose(1, 2))
    if mask is not None:
        scores.view(sentences, heads, beams, -1).add_(mask)
    attended = torch.bmm(torch.softmax(scores, dim=-1), values)
    return attended.view(sentences, heads, beams, -1).transpose(1, 2).reshape(sentences * beams, -1)


def _source_memory(layer: PackedLayer, source: Tensor) -> tuple[Tensor, Tensor]:
    """The source's keys and values `[sentences * heads, source_len, width]`."""
    _, length, width = source.shape
    keys, values = layer.source_kv(source.reshape(-1, width)).split(layer.widths[1:], dim=-1)
    return (
        _heads(keys, length, layer.key_width).reshape(-1, length, layer.key_width),
        _heads(values, length, layer.value_width).reshape(-1, length, layer.value_width),
    )


def _rows_of(memory: Tensor, kept: Tensor, sentences: int) -> Tensor:
    """What a memory `[sentences * heads, length, width]` holds of the kept sentences."""
    return memory.view(sentences, -1, *memory.shape[1:]).index_select(0, kept).flatten(0, 1)


def _scaled(attention: Any) -> tuple[Tensor, Tensor | None]:
    """The query's projection times the scale of the scores: one product less for each step."""
    projection = attention.q_proj
    return projection.weight * attention.scaling, projection.bias * attention.scaling


def _joined(*projections: Any) -> tuple[Tensor, Tensor]:
    """Several projections of the same rows as one, which reads the rows once."""
    pairs = [part if isinstance(part, tuple) else (part.weight, part.bias) for part in projections]
    weights, biases = zip(*pairs, strict=True)
    return torch.cat(weights), torch.cat(biases)
