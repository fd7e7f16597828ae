"""How a batch of sentences lies in memory: padded to a rectangle, or packed to its real tokens.

Only attention needs to know which word belongs to which sentence; all other layers work on single
words. A packed layout therefore drops the padding when a stack begins, lays out a rectangle for each
attention, and restores the padding (as zeros) when the stack ends. Unsorted batches are half padding.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .fast_linear import is_eager_on_cpu


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


class PackedLayout:
    """Real tokens only: hidden states `[1, tokens, width]`, in sentence order."""

    def __init__(self, mask: Tensor) -> None:
        self.batch, self.length = mask.shape
        flat = mask.reshape(-1)
        self.rows = flat.nonzero().squeeze(1)  # [tokens]: where each token stands in the rectangle
        self.slots = flat.cumsum(0).sub_(1).clamp_(min=0)  # [batch * length]: padding repeats a token
        self.head_index: dict[int, tuple[Tensor, Tensor]] = {}

    def pack(self, padded: Tensor) -> Tensor:
        return padded.flatten(0, 1).index_select(0, self.rows).unsqueeze(0)

    def unpack(self, packed: Tensor) -> Tensor:
        zeros = packed.new_zeros(self.batch * self.length, packed.shape[-1])
        return zeros.index_copy(0, self.rows, packed[0]).view(self.batch, self.length, -1)

    def spread(self, encodings: Tensor) -> Tensor:
        return encodings.index_select(0, self.rows % self.length).unsqueeze(0)

    def split_heads(self, states: Tensor, head_width: int) -> Tensor:
        heads = states.shape[-1] // head_width
        to_rectangle, to_tokens = self._index_of_heads(heads)
        flat = _Spread.apply(states.reshape(-1, head_width), to_rectangle, to_tokens)
        return flat.view(self.batch, heads, self.length, head_width)

    def merge_heads(self, attended: Tensor) -> Tensor:
        heads, head_width = attended.shape[2:]
        _, to_tokens = self._index_of_heads(heads)
        flat = attended.transpose(1, 2).reshape(-1, head_width)
        return _Collect.apply(flat, to_tokens).view(1, -1, heads * head_width)

    def _index_of_heads(self, heads: int) -> tuple[Tensor, Tensor]:
        """Rows of `[tokens, heads]` for `[batch, heads, length]`, and the way back."""
        if heads not in self.head_index:
            head = torch.arange(heads, device=self.rows.device)
            slots = self.slots.view(self.batch, 1, self.length)
            to_rectangle = (slots * heads + head.view(1, heads, 1)).flatten()
            sentence, position = self.rows // self.length, self.rows % self.length
            to_tokens = (sentence[:, None] * heads + head) * self.length + position[:, None]
            self.head_index[heads] = to_rectangle, to_tokens.flatten()
        return self.head_index[heads]


TokenLayout = PaddedLayout | PackedLayout


def layout_of(mask: Tensor | None, template: Tensor) -> TokenLayout:
    """Choose the layout of a batch: packed where that saves work and nothing is traced.

    A sentence without a single token stays in its rectangle, so that it sees no other sentence.
    """
    if mask is None or mask.shape != template.shape[:2] or not is_eager_on_cpu(mask, template):
        return PaddedLayout()
    mask = mask.bool()
    if mask.all() or not mask.any(dim=1).all():
        return PaddedLayout()
    return PackedLayout(mask)


class _Spread(torch.autograd.Function):
    """Rows of tokens into the rectangle. Padding repeats a token: masks must hide it as a key."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, to_rectangle: Tensor, to_tokens: Tensor) -> Tensor:
        ctx.save_for_backward(to_tokens)
        return tokens.index_select(0, to_rectangle)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (to_tokens,) = ctx.saved_tensors
        return gradient.index_select(0, to_tokens), None, None


class _Collect(torch.autograd.Function):
    """Rows of the rectangle back to tokens; the padding gets no gradient."""

    @staticmethod
    def forward(ctx: Any, rectangle: Tensor, to_tokens: Tensor) -> Tensor:
        ctx.save_for_backward(to_tokens)
        ctx.rectangle_rows = rectangle.shape[0]
        return rectangle.index_select(0, to_tokens)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (to_tokens,) = ctx.saved_tensors
        zeros = gradient.new_zeros(ctx.rectangle_rows, gradient.shape[1])
        return zeros.index_copy_(0, to_tokens, gradient), None
