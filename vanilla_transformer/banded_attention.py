"""Restricted self-attention (paper, section 4) that never makes the pairs which a window forbids.

A long sentence is cut into blocks of queries, each with the keys of its neighbourhood. These are
short sentences, which every way to attend takes as it takes others: time and memory grow with
length times window, and not with the square of the length.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SMALLEST_BLOCK = 32  # queries; with fewer the products are too small to be fast


@dataclass(frozen=True)
class Band:
    """Who is near whom, and how that cuts a sentence into blocks."""

    window: int
    is_causal: bool

    @property
    def block(self) -> int:
        """Queries of a block."""
        return max(self.window, SMALLEST_BLOCK)

    @property
    def width(self) -> int:
        """Keys of a block: its own, and those of its neighbourhood."""
        return self.window + self.block + self._after

    @property
    def _after(self) -> int:
        return 0 if self.is_causal else self.window

    def mask(self, template: Tensor, attention_mask: Tensor | None) -> Tensor:
        """True where a query may look, `[batch * blocks, 1, block, width]`.

        Every query may look at itself, padding too: no row is without a key.
        """
        batch, length = template.shape[:2]
        if attention_mask is None:
            attention_mask = template.new_ones(batch, length, dtype=torch.bool)
        is_real = self._neighbours(attention_mask.bool().view(batch, 1, length, 1))
        query = torch.arange(self.block, device=template.device).unsqueeze(1)
        key = torch.arange(self.width, device=template.device) - self.window
        distance = query - key
        is_near = (distance <= self.window) & (distance >= -self._after)
        return is_near & is_real.transpose(-2, -1) | (distance == 0)

    def attending(self, attend: Callable[..., Any]) -> Callable[..., Any]:
        """A way to attend, used on blocks; for masks that `mask` makes."""

        def attend_in_blocks(
            module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any
        ) -> tuple[Tensor, None]:
            batch, _, length, _ = query.shape
            states = self._blocks(query), self._neighbours(key), self._neighbours(value)
            attended, _ = attend(module, *states, *args, **kwargs)
            whole = attended.unflatten(0, (batch, -1)).flatten(1, 2)
            return whole[:, :length], None

        return attend_in_blocks

    def _blocks(self, states: Tensor) -> Tensor:
        """Queries `[batch * blocks, heads, block, width]` from `[batch, heads, length, width]`."""
        return self._cut(states, before=0, after=0)

    def _neighbours(self, states: Tensor) -> Tensor:
        """The keys of each block, `[batch * blocks, heads, width, ...]`, zeros beyond the ends."""
        return self._cut(states, before=self.window, after=self._after)

    def _cut(self, states: Tensor, before: int, after: int) -> Tensor:
        missing = -states.shape[2] % self.block
        padded = functional.pad(states, (0, 0, before, missing + after))
        pieces = padded.unfold(2, before + self.block + after, self.block)
        return pieces.permute(0, 2, 1, 4, 3).flatten(0, 1)
