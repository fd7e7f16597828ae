"""The layers of the paper's Table 1, each with what the paper says of it.

All map `[1, length, width]` to the same shape. Attention is the package's own, planned as its
encoder plans it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vanilla_transformer import VanillaTransformerConfig
from vanilla_transformer.attention_plan import AttentionPlan, plan_encoder
from vanilla_transformer.modeling_vanilla_transformer import Attention

HEAD_WIDTH = 64  # the paper's d_k
WINDOW = 64  # the paper's r: words seen to either side
KERNEL = 3  # the paper's k

SELF_ATTENTION = "self-attention"
EAGER = "self-attention, eager"
RESTRICTED = "restricted"
LSTM, GRU = "LSTM", "GRU"
CONVOLUTION = "convolution"


class SelfAttention(nn.Module):
    """Multi-head self-attention of a sentence, all words of which are real."""

    def __init__(self, width: int, window: int | None = None, kernel: str = "sdpa") -> None:
        super().__init__()
        heads = max(1, width // HEAD_WIDTH)
        self.config = VanillaTransformerConfig(
            d_model=width, encoder_attention_heads=heads, attention_window=window
        )
        self.config._attn_implementation = kernel
        self.attention = Attention(self.config, heads)
        self.plans: dict[int, AttentionPlan] = {}  # a model makes one for all its layers

    def forward(self, states: Tensor) -> Tensor:
        length = states.shape[1]
        if length not in self.plans:
            self.plans[length] = plan_encoder(self.config, states, None, {}, may_pack=True)
        plan = self.plans[length]
        attended, _ = self.attention(plan.layout.pack(states), plan)
        return plan.layout.unpack(attended)


class Recurrence(nn.Module):
    """A recurrent layer of the library, from one end of the sentence to the other."""

    def __init__(self, width: int, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.layer = kind(width, width, batch_first=True)

    def forward(self, states: Tensor) -> Tensor:
        return self.layer(states)[0]


class Convolution(nn.Module):
    """A convolution whose output is as long as its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2)

    def forward(self, states: Tensor) -> Tensor:
        return self.layer(states.transpose(1, 2)).transpose(1, 2)


@dataclass(frozen=True)
class LayerKind:
    """A row of Table 1."""

    build: Callable[[int], nn.Module]  # from a width
    operations: str  # a layer's, in the paper's words
    exponent: int  # of n in them
    sequential: str
    path: str


KINDS = {
    SELF_ATTENTION: LayerKind(SelfAttention, "n² d", 2, "1", "1"),
    EAGER: LayerKind(lambda width: SelfAttention(width, kernel="eager"), "n² d", 2, "1", "1"),
    RESTRICTED: LayerKind(lambda width: SelfAttention(width, WINDOW), "r n d", 1, "1", "n / r"),
    LSTM: LayerKind(lambda width: Recurrence(width, nn.LSTM), "n d²", 1, "n", "n"),
    GRU: LayerKind(lambda width: Recurrence(width, nn.GRU), "n d²", 1, "n", "n"),
    CONVOLUTION: LayerKind(Convolution, "k n d²", 1, "1", "n / k"),
}


def build(kind: str, width: int) -> nn.Module:
    """A layer of this kind, always with the same weights."""
    torch.manual_seed(0)
    return KINDS[kind].build(width)


def one_pass(layer: nn.Module, length: int, width: int) -> Callable[[], None]:
    """What is measured: a sentence through the layer, and the gradients of all back."""
    states = torch.randn(1, length, width, requires_grad=True)
    upstream = torch.randn(1, length, width)

    def go() -> None:
        layer.zero_grad()
        states.grad = None
        layer(states).backward(upstream)

    return go
