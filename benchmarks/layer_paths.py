"""Sequential operations and maximum path lengths of Table 1, counted and not believed.

Sequential operations are the longest chain of operations of which each needs the one before: the
depth of the graph that torch records. A path is as long as the number of layers, or of a
recurrence's steps, after which the last word has heard of the first.
"""

from collections.abc import Callable, Iterable
from itertools import count, repeat
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.layer_kinds import (
    CONVOLUTION,
    EAGER,
    GRU,
    KERNEL,
    LSTM,
    RESTRICTED,
    SELF_ATTENTION,
    Convolution,
    SelfAttention,
)

WIDTH = 8
DILATED = "convolution, dilated"
CELLS = {LSTM: (nn.LSTM, nn.LSTMCell), GRU: (nn.GRU, nn.GRUCell)}


class StepByStep(nn.Module):
    """A recurrent layer of the library in single steps, so that they can be counted."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        kind: Any = next(cell for whole, cell in CELLS.values() if isinstance(layer, whole))
        self.cell = kind(layer.input_size, layer.hidden_size)
        weights = {name.removesuffix("_l0"): one for name, one in layer.state_dict().items()}
        self.cell.load_state_dict(weights)

    def forward(self, states: Tensor) -> Tensor:
        carried, outputs = None, []
        for word in states.unbind(1):
            carried = self.cell(word, carried)
            outputs.append(carried[0] if isinstance(carried, tuple) else carried)
        return torch.stack(outputs, dim=1)


class OneStep(nn.Module):
    """All words take a step of the recurrence at once, each from the state of the one before."""

    def __init__(self, kind: str, width: int) -> None:
        super().__init__()
        self.cell = CELLS[kind][1](width, width)

    def forward(self, states: Tensor) -> Tensor:
        before = states[0].roll(1, dims=0).index_fill(0, torch.tensor([0]), 0.0)
        carried = (before, before) if isinstance(self.cell, nn.LSTMCell) else before
        after = self.cell(torch.zeros_like(before), carried)
        return (after[0] if isinstance(after, tuple) else after).unsqueeze(0)


class DilatedConvolution(nn.Module):
    """A convolution over every `dilation`th word before, as ByteNet stacks them."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.before = (KERNEL - 1) * dilation
        self.layer = nn.Conv1d(width, width, KERNEL, dilation=dilation)

    def forward(self, states: Tensor) -> Tensor:
        return self.layer(functional.pad(states.transpose(1, 2), (self.before, 0))).transpose(1, 2)


def dilated(width: int) -> Iterable[nn.Module]:
    """Convolutions of which each looks k times as far as the one before."""
    return (DilatedConvolution(width, KERNEL**layer) for layer in count())


def sequential_operations(kind: str, length: int) -> int:
    """The longest chain of operations in a layer of this kind over a sentence."""
    layers: dict[str, Callable[[], nn.Module]] = {
        SELF_ATTENTION: lambda: SelfAttention(WIDTH),
        EAGER: lambda: SelfAttention(WIDTH, kernel="eager"),
        RESTRICTED: lambda: SelfAttention(WIDTH, window=4),
        LSTM: lambda: StepByStep(nn.LSTM(WIDTH, WIDTH)),
        GRU: lambda: StepByStep(nn.GRU(WIDTH, WIDTH)),
        CONVOLUTION: lambda: Convolution(WIDTH),
    }
    output = layers[kind]()(torch.randn(1, length, WIDTH, requires_grad=True))
    return longest_chain(output)


def longest_chain(output: Tensor) -> int:
    """The depth of the graph behind a tensor, in operations."""
    depths: dict[Any, int] = {None: 0}
    pending = [output.grad_fn]
    while pending:
        node = pending[-1]
        before = [] if node is None else [one for one, _ in node.next_functions]
        if missing := [one for one in before if one not in depths]:
            pending += missing
        else:
            depths.setdefault(node, 1 + max((depths[one] for one in before), default=0))
            pending.pop()
    return depths[output.grad_fn]


def path_length(kind: str, length: int, window: int) -> int:
    """How many layers or steps until the last word of a sentence has heard of the first."""
    stacks: dict[str, Callable[[], Iterable[nn.Module]]] = {
        SELF_ATTENTION: lambda: repeat(SelfAttention(WIDTH)),
        EAGER: lambda: repeat(SelfAttention(WIDTH, kernel="eager")),
        RESTRICTED: lambda: repeat(SelfAttention(WIDTH, window=window)),
        LSTM: lambda: repeat(OneStep(LSTM, WIDTH)),
        GRU: lambda: repeat(OneStep(GRU, WIDTH)),
        CONVOLUTION: lambda: repeat(Convolution(WIDTH)),
        DILATED: lambda: dilated(WIDTH),
    }
    return layers_to_reach(stacks[kind](), length)


def layers_to_reach(layers: Iterable[nn.Module], length: int) -> int:
    """The number of layers through which the gradient of the last word gets to the first.

    Which words a layer's gradient gets to is found layer by layer, so that none is too small.
    """
    heard = torch.zeros(length, dtype=torch.bool)
    heard[-1] = True
    for number, layer in enumerate(layers, start=1):
        states = torch.randn(1, length, WIDTH, requires_grad=True)
        output = layer(states)
        (gradient,) = torch.autograd.grad(output, states, torch.randn_like(output) * heard[:, None])
        heard = (gradient[0] != 0).any(dim=-1)
        if heard[0]:
            return number
        if not heard.any():
            break
    raise ValueError("Layers must carry something from the first word to the last.")
