"""Linear layers whose float32 products go through oneDNN on a CPU.

torch sends float32 matrices to MKL, which has no AVX-512 path on AMD processors; the same product
through oneDNN takes less than half the time there (other processors were not measured). bfloat16
goes through oneDNN already. A probe makes one product first and leaves torch its own way where
oneDNN is absent or gives up float32 precision.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

# Products that take the place of layers: generation lays their weights out once for many calls.
laid_out: ContextVar[Mapping[nn.Module, Callable[[Tensor], Tensor]]] = ContextVar(
    "laid_out", default=MappingProxyType({})
)


@contextmanager
def laid_out_linears(products: Mapping[nn.Module, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """Inside, in this thread, layers among `products` multiply by them."""
    token = laid_out.set(products)
    try:
        yield
    finally:
        laid_out.reset(token)


class FastLinear(nn.Linear):
    """`nn.Linear` in everything but the route of its float32 products on a CPU."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        if not torch.compiler.is_compiling() and (product := laid_out.get().get(self)):
            rows = product(hidden_states.reshape(-1, hidden_states.shape[-1]))
            return rows.view(*hidden_states.shape[:-1], -1)
        if takes_onednn(hidden_states, self.weight) and not torch.is_autocast_enabled("cpu"):
            flat = hidden_states.reshape(-1, hidden_states.shape[-1])
            product = _OneDnnLinear.apply(flat, self.weight, self.bias)
            return product.view(*hidden_states.shape[:-1], -1)
        return functional.linear(hidden_states, self.weight, self.bias)


def takes_onednn(left: Tensor, right: Tensor) -> bool:
    """Whether the product of two matrices goes straight to oneDNN: eager float32 on a CPU."""
    return (
        left.dtype == right.dtype == torch.float32
        and is_eager_on_cpu(left, right)
        and left.numel() > 0
        and left.shape[-1] == right.shape[-1]
        and onednn_is_exact()
    )


def is_eager_on_cpu(*tensors: Tensor) -> bool:
    """Whether our own CPU code may take over: nothing traced, transformed, distributed, wrapped."""
    return (
        not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
        and not torch._C._are_functorch_transforms_active()
        and all(
            tensor.device.type == "cpu" and type(tensor) in (Tensor, nn.Parameter)
            for tensor in tensors
        )
    )


def multiply_transposed(left: Tensor, right: Tensor) -> Tensor:
    """Left @ right.T for plain CPU matrices, without a gradient; strides are free."""
    if left.dtype == torch.float32 and onednn_is_exact():
        return torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")
    return torch.matmul(left, right.t())


class _OneDnnLinear(torch.autograd.Function):
    """y = x W^T + b and its gradients, each one product through oneDNN."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        inputs, weight = ctx.saved_tensors
        for_inputs, for_weight, for_bias = ctx.needs_input_grad
        return (
            multiply_transposed(gradient, weight.t()) if for_inputs else None,
            multiply_transposed(gradient.t(), inputs.t()) if for_weight else None,
            gradient.sum(0) if for_bias else None,
        )


@lru_cache(maxsize=1)
def onednn_is_exact() -> bool:
    """Multiply two small matrices both ways: the product must exist and be a float32 product."""
    if not torch.backends.mkldnn.is_available():
        return False
    left = torch.linspace(-1, 1, 48 * 64, dtype=torch.float32, device="cpu").view(48, 64)
    right = torch.linspace(1, -2, 32 * 64, dtype=torch.float32, device="cpu").view(32, 64)
    try:
        product = torch.ops.mkldnn._linear_pointwise(
            left, right.t().contiguous().t(), None, "none", [], ""
        )
    except (AttributeError, RuntimeError):  # a torch without it, or without dense weights
        return False
    return torch.allclose(product.double(), left.double() @ right.double().t(), rtol=0, atol=1e-4)
