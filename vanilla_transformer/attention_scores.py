"""Six ways to compare a query with a key, one small class each, and the table that names them.

A score works in two steps. Each query and each key is first prepared on its own (`prepare_query`,
`prepare_key`: prepared keys are what a cache holds), then every pair is compared (`compare`). Where
the comparison is a dot product, a fused kernel may take `compare`'s place; `compare` stays the
readable truth that the kernels are tested against.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from .configuration_vanilla_transformer import VanillaTransformerConfig


class DotProduct(nn.Module):
    """A score of q . k."""

    is_dot_product = True  # False: the scores exist only as numbers, and no fused kernel can help
    compares_keys = True  # False: a score depends on where a key stands, and not on what it is

    def __init__(self, config: VanillaTransformerConfig, key_width: int) -> None:
        super().__init__()
        self.scaling = 1.0

    def prepare_query(self, query: Tensor) -> Tensor:
        return query

    def prepare_key(self, key: Tensor) -> Tensor:
        return key

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores `[batch, heads, query_len, key_len]` from `[batch, heads, length, key_width]`."""
        return torch.matmul(query * self.scaling, key.transpose(-2, -1))


class ScaledDotProduct(DotProduct):
    """A score of q . k / sqrt(d_k): the paper's (3.2.1), so that softmax keeps a gradient."""

    def __init__(self, config: VanillaTransformerConfig, key_width: int) -> None:
        super().__init__(config, key_width)
        self.scaling = 1 / math.sqrt(key_width)


class General(DotProduct):
    """A score of q W k (Luong et al. 2015): a learned form, one for all heads of a layer."""

    def __init__(self, config: VanillaTransformerConfig, key_width: int) -> None:
        super().__init__(config, key_width)
        self.query_proj = nn.Linear(key_width, key_width, bias=False)

    def prepare_query(self, query: Tensor) -> Tensor:
        return self.query_proj(query)


class Cosine(DotProduct):
    """A score of q . k / (|q| |k|) (content-based, Graves et al. 2014): only directions count."""

    def prepare_query(self, query: Tensor) -> Tensor:
        exact = query.to(torch.promote_types(query.dtype, torch.float32))
        return functional.normalize(exact, dim=-1).to(query.dtype)

    def prepare_key(self, key: Tensor) -> Tensor:
        return self.prepare_query(key)


class Additive(DotProduct):
    """A score of v . tanh(W q + U k) (Bahdanau et al. 2015): a small network sees every pair."""

    is_dot_product = False

    def __init__(self, config: VanillaTransformerConfig, key_width: int) -> None:
        super().__init__(config, key_width)
        self.query_proj = nn.Linear(key_width, key_width, bias=False)
        self.key_proj = nn.Linear(key_width, key_width, bias=False)
        self.pair_proj = nn.Linear(key_width, 1, bias=False)

    def prepare_query(self, query: Tensor) -> Tensor:
        return self.query_proj(query)

    def prepare_key(self, key: Tensor) -> Tensor:
        return self.key_proj(key)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        pairs = query.unsqueeze(-2) + key.unsqueeze(-3)  # [batch, heads, query_len, key_len, width]
        return self.pair_proj(torch.tanh(pairs)).squeeze(-1)


class Location(DotProduct):
    """A score of (W q)_j (Luong et al. 2015): the query alone says which position to look at."""

    is_dot_product = False
    compares_keys = False

    def __init__(self, config: VanillaTransformerConfig, key_width: int) -> None:
        super().__init__(config, key_width)
        self.position_proj = nn.Linear(key_width, config.max_position_embeddings, bias=False)

    def compare(self, query: Tensor, key: Tensor) -> Tensor:
        key_len, limit = key.shape[-2], self.position_proj.out_features
        if key_len > limit:
            raise ValueError(
                f"attention_score='location' knows {limit} positions (max_position_embeddings), "
                f"got {key_len} keys: shorten the input or train with a larger table."
            )
        return functional.linear(query, self.position_proj.weight[:key_len])


SCORES: dict[str, type[DotProduct]] = {
    "scaled_dot_product": ScaledDotProduct,
    "dot_product": DotProduct,
    "general": General,
    "additive": Additive,
    "cosine": Cosine,
    "location": Location,
}
