"""Linear layers of inference: the weights are laid out once for the products they will be in.

A small table of ways, one class each. All take rows `[rows, inputs]` and know two products: the
plain one, and one that is added to a residual, which some ways do in the same pass.
"""

import torch
from torch import Tensor
from torch.nn import functional

from .fast_linear import onednn_is_exact


class TorchLinear:
    """The product as torch makes it: on accelerators, and where nothing better is known."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, rows: Tensor) -> Tensor:
        return functional.linear(rows, self.weight, self.bias)

    def rectified(self, rows: Tensor) -> Tensor:
        """The positive part of the product."""
        return self(rows).relu_()

    def added_to(self, residual: Tensor, rows: Tensor) -> Tensor:
        """The residual plus the product."""
        return self(rows).add_(residual)


class OneDnnLinear(TorchLinear):
    """Weights in oneDNN's own blocks: four times as fast as torch's product for a few rows."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        blocks = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous())
        super().__init__(blocks, bias)

    def __call__(self, rows: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")

    def rectified(self, rows: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "relu", [], "")

    def added_to(self, residual: Tensor, rows: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise.binary(
            rows, residual, self.weight, self.bias, "add"
        )


class Int8Linear(TorchLinear):
    """Weights as 8-bit integers with a scale for each output; rows are quantized as they come."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        exact = weight.detach().float()
        scales = exact.abs().amax(dim=1).clamp(min=1e-8).double() / 127
        zeros = torch.zeros_like(scales, dtype=torch.int64)
        levels = torch.quantize_per_channel(exact, scales, zeros, axis=0, dtype=torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(
            levels, None if bias is None else bias.float()
        )

    def __call__(self, rows: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic(rows, self.packed)

    def rectified(self, rows: Tensor) -> Tensor:
        return torch.ops.quantized.linear_relu_dynamic(rows, self.packed)


def best_way(weight: Tensor) -> type[TorchLinear]:
    """How to multiply with a weight of this kind on the device where it lies."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return TorchLinear
    if weight.dtype == torch.float32 and onednn_is_exact():
        return OneDnnLinear
    if weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return OneDnnLinear
    return TorchLinear
