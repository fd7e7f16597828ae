"""The weights that are trained: float32 numbers, and where it is faster a 16-bit copy to compute with.

bfloat16 has 8 bits of precision: small steps would vanish in it. So gradients are gathered into
float32 ones, the optimizer changes float32 weights, and the copy is made from them anew.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


class ExactWeights:
    """A model that computes with the very weights that are trained."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.names = [name for name, one in model.named_parameters() if one.requires_grad]
        self.exact: list[Tensor] = [one for one in model.parameters() if one.requires_grad]

    def gather(self) -> None:
        """After a backward pass: its gradients are in those of the exact weights."""

    def spread(self) -> None:
        """After the optimizer: the model computes with what it made."""

    def gradients(self) -> list[Tensor]:
        """The gradients of the exact weights."""
        return [one.grad for one in self.exact if one.grad is not None]

    def forget_gradients(self) -> None:
        for one in self.exact:
            one.grad = None

    def named(self) -> Iterator[tuple[str, Tensor]]:
        """Names and exact weights: what is saved."""
        return zip(self.names, self.exact, strict=True)

    @torch.no_grad()
    def load(self, saved: dict[str, Tensor]) -> None:
        """Go on with saved weights."""
        for name, one in self.named():
            one.copy_(saved[name])
        self.spread()


class WorkingCopy(ExactWeights):
    """A model in 16 bits whose weights are made from float32 ones after every step."""

    def __init__(self, model: Any, dtype: torch.dtype) -> None:
        exact = [one.detach().clone() for one in model.parameters() if one.requires_grad]
        super().__init__(model.to(dtype))
        self.working, self.exact = self.exact, exact

    @torch.no_grad()
    def gather(self) -> None:
        for working, exact in zip(self.working, self.exact, strict=True):
            if working.grad is None:
                continue
            if exact.grad is None:
                exact.grad = working.grad.to(exact.dtype)
            else:
                exact.grad.add_(working.grad)
            working.grad = None

    @torch.no_grad()
    def spread(self) -> None:
        torch._foreach_copy_(self.working, self.exact)


def choose_weights(model: Any, precision: str, device: torch.device) -> ExactWeights:
    """The weights for a precision of a recipe; `auto` is bfloat16 where the processor has it."""
    if precision == "auto":
        precision = "bfloat16" if has_bfloat16(device) else "float32"
    return WorkingCopy(model, torch.bfloat16) if precision == "bfloat16" else ExactWeights(model)


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies bfloat16 in hardware."""
    if device.type == "cpu":
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return device.type == "cuda" and torch.cuda.is_bf16_supported()
