"""Where a word stands: the paper's sinusoids (3.5) or learned vectors (Table 3, row E)."""

import torch
from torch import Tensor, nn

from .configuration_vanilla_transformer import VanillaTransformerConfig
from .fast_linear import is_eager_on_cpu


class SinusoidalPositions(nn.Module):
    """sin and cos of position / 10000^(2i / d_model), interleaved; made for the length at hand."""

    def __init__(self, config: VanillaTransformerConfig) -> None:
        super().__init__()
        self.d_model = config.d_model

    def forward(self, positions: Tensor) -> Tensor:
        """Encodings `[length, d_model]` of positions `[length]`, in float32."""
        # In float32, position 1,000 would be 1e-4 off. Apple's GPUs have nothing better.
        exact = torch.float32 if positions.device.type == "mps" else torch.float64
        even = torch.arange(0, self.d_model, 2, device=positions.device, dtype=exact)
        angles = positions.to(exact).unsqueeze(-1) * torch.pow(10000.0, -even / self.d_model)
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()


class LearnedPositions(nn.Embedding):
    """One learned vector per position, as many as `max_position_embeddings`."""

    def __init__(self, config: VanillaTransformerConfig) -> None:
        super().__init__(config.max_position_embeddings, config.d_model)

    def forward(self, positions: Tensor) -> Tensor:
        """Encodings `[length, d_model]` of positions `[length]`."""
        can_look = is_eager_on_cpu(positions) and positions.numel() > 0  # without any waiting
        if can_look and positions[-1] >= self.num_embeddings:
            raise ValueError(
                f"position_encoding='learned' knows {self.num_embeddings} positions "
                f"(max_position_embeddings), got position {int(positions[-1])}: "
                "shorten the input or train with a larger table."
            )
        return super().forward(positions)


POSITION_ENCODINGS: dict[str, type[nn.Module]] = {
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
}
