"""Who may look at whom: padding, the future and the neighbourhood, as the library's masks.

Every mask says True (or 0, in its additive form) where a query may look at a key.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from transformers.cache_utils import Cache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask

from .configuration_vanilla_transformer import VanillaTransformerConfig


def encoder_mask(
    config: VanillaTransformerConfig, template: Tensor, attention_mask: Tensor | None
) -> Tensor | None:
    """Every word sees every word of its sentence, or its neighbourhood (paper, section 4)."""
    overlay = _neighbourhood(config.attention_window)
    return create_bidirectional_mask(config, template, attention_mask, and_mask_function=overlay)


def decoder_mask(
    config: VanillaTransformerConfig,
    template: Tensor,
    attention_mask: Tensor | None,
    past_key_values: Cache | None,
) -> Tensor | None:
    """Every word sees itself and the words before it (3.2.3), or the nearest of them."""
    overlay = _neighbourhood(config.attention_window)
    cache = getattr(past_key_values, "self_attention_cache", past_key_values)
    return create_causal_mask(config, template, attention_mask, cache, and_mask_function=overlay)


def source_mask(
    config: VanillaTransformerConfig,
    template: Tensor,
    attention_mask: Tensor | None,
    source: Tensor,
) -> Tensor | None:
    """Every target word sees the whole source sentence."""
    return create_bidirectional_mask(config, template, attention_mask, encoder_hidden_states=source)


def additive(mask: Tensor | None) -> Tensor | None:
    """A mask to add to scores: 0 where a query may look, the most negative number elsewhere."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    floor = torch.finfo(torch.float32).min
    return torch.zeros(mask.shape, dtype=torch.float32, device=mask.device).masked_fill_(
        ~mask, floor
    )


def _neighbourhood(window: int | None) -> Callable[..., Tensor] | None:
    """At most `window` positions to either side (the future is the causal mask's business)."""
    if window is None:
        return None

    def is_near(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query - key).abs() <= window

    return is_near
