"""How a batch of sentences lies in memory: padded to a rectangle, or packed to its real tokens.

Only attention needs to know which word belongs to which sentence; all other layers work on single
words. A packed layout therefore drops the padding when a stack begins and restores it, as zeros,
when the stack ends; in between, sentences of similar length attend together. Unsorted batches are
half padding.
"""

from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from .fast_linear import is_eager_on_cpu

SIMILAR = 0.6  # a group's shortest sentence is at least this share of its longest


class PaddedLayout:
    """The rectangle as it is: hidden states `[batch, length, width]`, padding included."""

    def pack(self, padded: Tensor) -> Tensor:
        return padded

    def unpack(self, packed: Tensor) -> Tensor:
        return packed

    def spread(self, encodings: Tensor) -> Tensor:
        """Position encodings `[length, width]`, in the shape of hidden states."""
        return encodings.unsqueeze(0)

    def split_heads(self, states: Tensor, head_width: int) -> Tensor:
        """`[batch, heads, length, head_width]` from hidden states of heads * head_width."""
        return states.view(*states.shape[:-1], -1, head_width).transpose(1, 2)

    def merge_heads(self, attended: Tensor) -> Tensor:
        """Hidden states from `[batch, length, heads, head_width]`."""
        return attended.flatten(2)


class Group:
    """Neighbours in a packed layout, similar in length: they attend in one rectangle."""

    def __init__(self, lengths: list[int], first_token: int) -> None:
        self.sentences, self.length = len(lengths), max(lengths)
        self.tokens = slice(first_token, first_token + sum(lengths))
        words = torch.tensor(lengths, device="cpu").unsqueeze(1)
        self.positions = torch.arange(self.length, device="cpu")
        self.is_real = self.positions < words  # [sentences, length]
        starts = words.cumsum(0) - words
        # Padding repeats the last word of its sentence.
        self.slots = starts + torch.minimum(self.positions, words - 1)
        self.indices: dict[int, tuple[Tensor, Tensor]] = {}

    def rectangle_of(self, states: Tensor) -> Tensor:
        """`[sentences * heads, length, width]` from states `[tokens, heads, width]` of a batch."""
        own = states[self.tokens]
        to_rectangle, _ = self._index(own.shape[1])
        flat = own.reshape(-1, own.shape[2]).index_select(0, to_rectangle)
        return flat.view(-1, self.length, own.shape[2])

    def write_tokens(self, rectangle: Tensor, states: Tensor) -> None:
        """The way back: fill this group's part of `states` with the real words of a rectangle."""
        own = states[self.tokens]
        _, to_tokens = self._index(own.shape[1])
        flat = rectangle.reshape(-1, own.shape[2])
        torch.index_select(flat, 0, to_tokens, out=own.view(-1, own.shape[2]))

    def _index(self, heads: int) -> tuple[Tensor, Tensor]:
        """Rows of `[tokens, heads]` for `[sentences, heads, length]`, and the way back."""
        if heads not in self.indices:
            head = torch.arange(heads, device="cpu")
            to_rectangle = self.slots.unsqueeze(1) * heads + head.unsqueeze(1)
            sentence, position = self.is_real.nonzero(as_tuple=True)
            to_tokens = (sentence.unsqueeze(1) * heads + head) * self.length + position.unsqueeze(1)
            self.indices[heads] = to_rectangle.flatten(), to_tokens.flatten()
        return self.indices[heads]


class PackedLayout:
    """Real tokens only, longest sentences first: hidden states `[1, tokens, width]`."""

    def __init__(self, lengths: Tensor, length: int, order: Tensor, group_sizes: list[int]) -> None:
        self.batch, self.length = len(lengths), length
        self.ordered = lengths[order]
        self.group_sizes = group_sizes
        starts = self.ordered.cumsum(0) - self.ordered
        tokens = torch.arange(int(self.ordered.sum()), device="cpu")
        self.positions = tokens - starts.repeat_interleave(self.ordered)
        self.rows = (order * length).repeat_interleave(self.ordered) + self.positions

    @cached_property
    def groups(self) -> list[Group]:
        groups, first_token = [], 0
        for lengths in self.ordered.split(self.group_sizes):
            groups.append(Group(lengths.tolist(), first_token))
            first_token = groups[-1].tokens.stop
        return groups

    def pack(self, padded: Tensor) -> Tensor:
        return padded.flatten(0, 1).index_select(0, self.rows).unsqueeze(0)

    def unpack(self, packed: Tensor) -> Tensor:
        zeros = packed.new_zeros(self.batch * self.length, packed.shape[-1])
        return zeros.index_copy(0, self.rows, packed[0]).view(self.batch, self.length, -1)

    def spread(self, encodings: Tensor) -> Tensor:
        return encodings.index_select(0, self.positions).unsqueeze(0)

    def split_heads(self, states: Tensor, head_width: int) -> Tensor:
        """`[tokens, heads, head_width]`."""
        return states.view(states.shape[1], -1, head_width)

    def merge_heads(self, attended: Tensor) -> Tensor:
        return attended.flatten(1).unsqueeze(0)


TokenLayout = PaddedLayout | PackedLayout
PADDED = PaddedLayout()


def packed_layouts(*sides: tuple[Tensor | None, Tensor | None]) -> list[PackedLayout] | None:
    """Layouts of one side, or of target and source in the same order, or None.

    A side is its mask and any tensor `[batch, length, ...]`. Packing wants the padding at the end
    and at least one word in each sentence.
    """
    all_lengths = [_lengths(mask, template) for mask, template in sides]
    lengths = [side for side in all_lengths if side is not None]
    if len(lengths) < len(sides):
        return None
    longest, order = torch.stack(lengths).amax(0).sort(descending=True)
    group_sizes = list(_group_sizes(longest.tolist()))
    return [
        PackedLayout(side, template.shape[1], order, group_sizes)
        for side, (_, template) in zip(lengths, sides, strict=True)
        if template is not None
    ]


def _lengths(mask: Tensor | None, template: Tensor | None) -> Tensor | None:
    if template is None or not is_eager_on_cpu(template):
        return None
    batch, length = template.shape[:2]
    if mask is None:
        lengths = torch.full((batch,), length, device="cpu")
    elif mask.shape != (batch, length) or not is_eager_on_cpu(mask):
        return None
    else:
        mask = mask.bool()
        lengths = mask.sum(1)
        if (mask != (torch.arange(length, device="cpu") < lengths.unsqueeze(1))).any():
            return None
    return lengths if batch and lengths.min() > 0 else None


def _group_sizes(lengths: list[int]) -> Iterator[int]:
    """Cut falling lengths where similarity ends: [50, 40, 22, 20, 9] -> 2, 2, 1."""
    first = 0
    for index, length in enumerate(lengths):
        if length < SIMILAR * lengths[first]:
            yield index - first
            first = index
    yield len(lengths) - first


def last_positions(states: Tensor, how_many: int | Tensor) -> Tensor:
    """The last positions of `[batch, length, width]`, all for 0, or those that a tensor names."""
    if isinstance(how_many, int):
        return states[:, -how_many:] if how_many else states
    return states[:, how_many]
