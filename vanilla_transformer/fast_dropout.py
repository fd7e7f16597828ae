"""Dropout that spends two random bytes, not a random number, on each value.

torch draws a Bernoulli number per value on a CPU, which takes longer than the layer norm behind it.
The probability is kept to 1 / 65536; the generator and its seed are torch's own.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from .fast_linear import is_eager_on_cpu

LEVELS = 65536  # what two bytes can tell apart
VALUES_PER_DRAW = 4  # one 64-bit draw is four pairs of bytes


class FastDropout(nn.Dropout):
    """`nn.Dropout` in everything but its random numbers on a CPU."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return hidden_states
        if is_eager_on_cpu(hidden_states) and self.p < 1:
            return _Dropout.apply(hidden_states, self.p)
        return functional.dropout(hidden_states, self.p)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden_states: Tensor, probability: float) -> Tensor:
        kept = draw_mask(hidden_states, probability)
        ctx.save_for_backward(kept)
        ctx.probability = probability
        return scale_kept(kept, probability, hidden_states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return scale_kept(kept, ctx.probability, gradient), None


def draw_mask(like: Tensor, probability: float) -> Tensor:
    """1 where a value is kept, 0 where it is dropped, in the shape of `like`."""
    count = -(-like.numel() // VALUES_PER_DRAW)
    draws = torch.empty(count, dtype=torch.int64, device="cpu")
    pairs = draws.random_(-(2**63), None).view(torch.int16)[: like.numel()]
    dropped = min(round(probability * LEVELS), LEVELS - 1)
    return pairs.ge_(dropped - LEVELS // 2).view(like.shape)


def scale_kept(kept: Tensor, probability: float, values: Tensor) -> Tensor:
    """The kept values, larger by 1 / (1 - probability) so that their expectation stays."""
    scale = 1 / (1 - probability)
    if values.element_size() == kept.element_size():  # 1 times the bits of the scale is the scale
        bits = torch.tensor(scale, dtype=values.dtype, device="cpu").view(kept.dtype)
        return torch.mul(kept, bits).view(values.dtype).mul_(values)
    return kept.to(values.dtype).mul_(scale).mul_(values)
