"""How the attentions of one forward pass are computed: packed, in plain products, or in a kernel.

All ways give the same numbers. A fused kernel (sdpa, flash, flex) is what the configuration asks
for; on a CPU, and for sentences of everyday length, plain matrix products are faster, and packed
ones faster still. Where a window leaves out most pairs, products and kernels go block by block.
Whoever wants to see attentions or hidden states gets whole rectangles.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from .attention_masks import additive, decoder_mask, encoder_mask, source_mask
from .attention_scores import SCORES
from .banded_attention import Band
from .configuration_vanilla_transformer import VanillaTransformerConfig
from .fast_linear import is_eager_on_cpu
from .packed_attention import packed_masks
from .token_layout import PADDED, TokenLayout, packed_layouts

PACKED_PAIRS = 256 * 256  # of query and key; beyond, a kernel that keeps no weights is better
EXPLICIT_PAIRS = 128 * 128  # up to this many, plain products beat a fused kernel on a CPU
WORTHWHILE = 2  # a sentence longer than so many times a block's keys goes block by block

Mask = Tensor | list[Tensor] | None


@dataclass(frozen=True)
class AttentionPlan:
    """What every layer of a stack is told: how tokens lie, who sees whom, and by which way."""

    mask: Mask
    layout: TokenLayout
    source_mask: Mask
    source_layout: TokenLayout
    explicit: bool  # plain products in place of the configured kernel
    band: Band | None = None  # if self-attention goes block by block, as its mask does

    def to(self, device: torch.device, **kwargs: Any) -> Self:
        """Move the masks; accelerate asks this of whatever a layer on another device is given."""
        mask, source_mask = (
            mask if mask is None or isinstance(mask, list) else mask.to(device, **kwargs)
            for mask in (self.mask, self.source_mask)
        )
        return replace(self, mask=mask, source_mask=source_mask)


def plan_encoder(
    config: VanillaTransformerConfig,
    template: Tensor,
    attention_mask: Tensor | None,
    kwargs: dict[str, Any],
    may_pack: bool,
) -> AttentionPlan:
    """The plan for a source `[batch, length, ...]`, of which only shape and dtype matter."""
    _refuse_other_shape(attention_mask, template)
    length, window = template.shape[1], config.attention_window
    packs = may_pack and _packs(config, length * length, kwargs)
    if packs and (layouts := packed_layouts((attention_mask, template))):
        (layout,) = layouts
        masks = packed_masks(layout, layout, is_causal=False, window=window)
        return AttentionPlan(masks, layout, None, layout, explicit=False)
    mask: Tensor | None
    if band := _band(config, template, attention_mask, kwargs, is_causal=False):
        mask = band.mask(template, attention_mask)
    else:
        mask = encoder_mask(config, template, attention_mask)
    explicit = _attends_explicitly(config, template, length, kwargs)
    return AttentionPlan(additive(mask) if explicit else mask, PADDED, None, PADDED, explicit, band)


def plan_decoder(
    config: VanillaTransformerConfig,
    template: Tensor,
    attention_mask: Tensor | None,
    source: Tensor | None,
    source_attention_mask: Tensor | None,
    past_key_values: Cache | None,
    kwargs: dict[str, Any],
    may_pack: bool,
) -> AttentionPlan:
    """The plan for a target over itself and over its source."""
    if source is not None:
        _refuse_other_shape(source_attention_mask, source)
        if len(source) != len(template):
            raise ValueError(
                f"source and target must be as many sentences, got {len(source)} and "
                f"{len(template)}: pair them."
            )
    length, window = template.shape[1], config.attention_window
    key_len = length if source is None else max(length, source.shape[1])
    packs = may_pack and past_key_values is None and _packs(config, length * key_len, kwargs)
    sides = (attention_mask, template), (source_attention_mask, source)
    if packs and (layouts := packed_layouts(*sides)):
        layout, source_layout = layouts
        masks = packed_masks(layout, layout, is_causal=True, window=window)
        cross_masks = packed_masks(layout, source_layout, is_causal=False, window=None)
        return AttentionPlan(masks, layout, cross_masks, source_layout, explicit=False)
    band, mask, cross_mask = None, None, None
    if past_key_values is None:
        band = _band(config, template, attention_mask, kwargs, is_causal=True)
    if band:
        mask = band.mask(template, attention_mask)
    else:
        mask = decoder_mask(config, template, attention_mask, past_key_values)
    if source is not None:
        cross_mask = source_mask(config, template, source_attention_mask, source)
    explicit = _attends_explicitly(config, template, key_len, kwargs)
    if explicit:
        mask, cross_mask = additive(mask), additive(cross_mask)
    return AttentionPlan(mask, PADDED, cross_mask, PADDED, explicit, band)


def _refuse_other_shape(mask: Tensor | None, source: Tensor) -> None:
    if mask is not None and mask.dim() == 2 and mask.shape != source.shape[:2]:
        raise ValueError(
            f"attention_mask must have the shape of the source, {[*source.shape[:2]]}, got "
            f"{[*mask.shape]}: take it from the tokenizer along with the ids."
        )


def may_pack(words: Tensor, stack: Any) -> bool:
    """Whether a stack is with its words on one CPU, and no hook awaits its whole rectangles."""
    return (
        is_eager_on_cpu(words)
        and stack.get_input_embeddings().weight.device == words.device
        and not any(module._forward_pre_hooks for module in stack.layers.modules())
    )


def records_layers(config: VanillaTransformerConfig, kwargs: dict[str, Any]) -> bool:
    """Whether the caller looks inside the stacks, and so must find whole rectangles there."""
    return _asks(config, kwargs, "output_attentions") or _asks(
        config, kwargs, "output_hidden_states"
    )


def _asks(config: VanillaTransformerConfig, kwargs: dict[str, Any], name: str) -> bool:
    return bool(kwargs.get(name, getattr(config, name, False)))


def _packs(config: VanillaTransformerConfig, pairs: int, kwargs: dict[str, Any]) -> bool:
    return (
        pairs <= PACKED_PAIRS
        and config._attn_implementation in ("eager", "sdpa")
        and SCORES[config.attention_score].is_dot_product
        and not records_layers(config, kwargs)
    )


def _band(
    config: VanillaTransformerConfig,
    template: Tensor,
    attention_mask: Tensor | None,
    kwargs: dict[str, Any],
    *,
    is_causal: bool,
) -> Band | None:
    """How self-attention goes block by block, where the window leaves out most pairs."""
    if config.attention_window is None:
        return None
    band = Band(config.attention_window, is_causal)
    pays = (
        template.shape[1] > WORTHWHILE * band.width
        and config._attn_implementation in ("eager", "sdpa")
        and SCORES[config.attention_score].compares_keys
        and (attention_mask is None or attention_mask.shape == template.shape[:2])
        and not _asks(config, kwargs, "output_attentions")
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
    )
    return band if pays else None


def _attends_explicitly(
    config: VanillaTransformerConfig, template: Tensor, key_len: int, kwargs: dict[str, Any]
) -> bool:
    if config._attn_implementation != "sdpa":
        return config._attn_implementation == "eager"
    is_short = template.shape[1] * key_len <= EXPLICIT_PAIRS and is_eager_on_cpu(template)
    return is_short or _asks(config, kwargs, "output_attentions")
