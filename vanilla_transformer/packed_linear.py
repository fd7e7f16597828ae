"""Linear layers of inference: the weights are laid out once for the products they will be in.

A small table of ways, one class each; all take rows `[rows, inputs]`.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .fast_linear import onednn_is_exact

# More 8-bit products at once need memory that the process gives back and gets anew each time: page
# faults took a third of the time.
LARGEST_RESULT = 1_200_000  # numbers

# `_op`: without torch's search among the arguments for what torch.compile would put there.
LINEAR = torch.ops.quantized.linear_dynamic.default._op
LINEAR_RELU = torch.ops.quantized.linear_relu_dynamic.default._op


class TorchProduct:
    """The product as torch makes it: on accelerators, and where nothing better is known."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, rows: Tensor) -> Tensor:
        return functional.linear(rows, self.weight, self.bias)

    def in_parts(self, rows: Tensor) -> Iterator[Tensor]:
        """The product, as many rows at a time as are fast."""
        yield self(rows)

    def rectified(self, rows: Tensor) -> Tensor:
        """The positive part of the product."""
        return self(rows).relu_()

    def added_to(self, residual: Tensor, rows: Tensor) -> Tensor:
        """The residual plus the product."""
        return self(rows).add_(residual)


class OneDnnProduct(TorchProduct):
    """Weights in oneDNN's own blocks: four times as fast as torch's product for a few rows."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        blocks = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous())
        super().__init__(blocks, bias)
        self.multiply = torch.ops.mkldnn._linear_pointwise.default
        self.multiply_and_add = torch.ops.mkldnn._linear_pointwise.binary

    def __call__(self, rows: Tensor) -> Tensor:
        return self.multiply(rows, self.weight, self.bias, "none", [], "")

    def added_to(self, residual: Tensor, rows: Tensor) -> Tensor:
        return self.multiply_and_add(rows, residual, self.weight, self.bias, "add")

    def rectified(self, rows: Tensor) -> Tensor:
        return self.multiply(rows, self.weight, self.bias, "relu", [], "")


class Int8Product(TorchProduct):
    """Weights as 8-bit integers with a scale for each output; rows are quantized as they come."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        exact = weight.detach().float()
        scales = exact.abs().amax(dim=1).clamp(min=1e-30).double() / 127
        zeros = torch.zeros_like(scales, dtype=torch.int64)
        with warnings.catch_warnings():  # of its end in some later torch
            warnings.simplefilter("ignore", UserWarning)
            levels = torch.quantize_per_channel(exact, scales, zeros, axis=0, dtype=torch.qint8)
        offset = None if bias is None else bias.detach().float()
        self.packed = torch.ops.quantized.linear_prepack(levels, offset)
        self.rows_at_once = max(1, LARGEST_RESULT // len(weight))

    def __call__(self, rows: Tensor) -> Tensor:
        return LINEAR(rows, self.packed)

    def in_parts(self, rows: Tensor) -> Iterator[Tensor]:
        return map(self, rows.split(self.rows_at_once))

    def rectified(self, rows: Tensor) -> Tensor:
        return LINEAR_RELU(rows, self.packed)


class Int8Linear(nn.Module):
    """A linear layer with 8-bit weights, for inference on a CPU."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.product = Int8Product(linear.weight, linear.bias)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.product(hidden_states)

    @property
    def weight(self) -> Tensor:
        """The weights as numbers again, rounded as they are."""
        return torch.ops.quantized.linear_unpack(self.product.packed)[0].dequantize()

    @property
    def bias(self) -> Tensor | None:
        return torch.ops.quantized.linear_unpack(self.product.packed)[1]

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        raise ValueError(
            "A model with 8-bit weights cannot be saved: save it before to_int8(), and call "
            "to_int8() again after loading."
        )


def best_way(linear: nn.Module) -> type[TorchProduct]:
    """How to multiply with weights like those of a layer, on the device where it lies."""
    if isinstance(linear, Int8Linear):
        return Int8Product
    weight = linear.weight
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return TorchProduct
    if weight.dtype == torch.float32 and onednn_is_exact():
        return OneDnnProduct
    if weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return OneDnnProduct
    return TorchProduct
