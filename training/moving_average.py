"""An exponential moving average of the weights, kept beside them: another way to average (6.1)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class MovingAverage:
    """Follows weights: after every step the average is `decay` of itself and the rest of them.

    In the first steps it follows faster, so that what the weights began with is soon forgotten.
    """

    def __init__(self, weights: list[Tensor], decay: float) -> None:
        self.weights, self.decay = weights, decay
        self.averages = [one.detach().clone() for one in weights]

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Take in the weights of a step; the first is step 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.averages, self.weights, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the weights be their averages for a while."""
        kept = [one.detach().clone() for one in self.weights]
        self._put(self.averages)
        try:
            yield
        finally:
            self._put(kept)

    @torch.no_grad()
    def _put(self, values: list[Tensor]) -> None:
        torch._foreach_copy_(self.weights, values)
