"""Where the trained numbers lie: in float32, and beside it a 16-bit copy where that is faster.

bfloat16 has 8 bits of precision: small steps would vanish in it. So the optimizer changes float32
weights, a copy of them in bfloat16 computes, and its gradients are gathered in float32.
"""

import copy
from typing import Any

import torch
from torch import Tensor


class ExactWeights:
    """A model that computes with the very weights that are trained."""

    def __init__(self, model: Any) -> None:
        self.trained = model  # holds the weights that are trained, and saved
        self.model = model  # computes
        self.exact: list[Tensor] = [one for one in model.parameters() if one.requires_grad]

    def gather(self) -> None:
        """After a backward pass: its gradients are added to those of the exact weights."""

    def spread(self) -> None:
        """After the exact weights changed: the model computes with what they are now."""

    def gradients(self) -> list[Tensor]:
        """The gradients of the exact weights."""
        return [one.grad for one in self.exact if one.grad is not None]

    def forget_gradients(self) -> None:
        for one in self.exact:
            one.grad = None


class WorkingCopy(ExactWeights):
    """A model in 16 bits whose weights are made from float32 ones after every step."""

    def __init__(self, model: Any, dtype: torch.dtype) -> None:
        super().__init__(model)
        self.model = copy.deepcopy(model).to(dtype)
        self.working = [one for one in self.model.parameters() if one.requires_grad]

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


def place_weights(model: Any, precision: str, device: torch.device) -> ExactWeights:
    """The weights for a precision of a recipe; `auto` is bfloat16 where the processor has it."""
    model = model.to(device).train()
    if precision == "auto":
        precision = "bfloat16" if has_bfloat16(device) else "float32"
    return WorkingCopy(model, torch.bfloat16) if precision == "bfloat16" else ExactWeights(model)


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies bfloat16 in hardware."""
    if device.type == "cpu":
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
