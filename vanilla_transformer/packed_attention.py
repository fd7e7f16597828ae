"""Dot-product attention over packed tokens: each group of similar sentences in its own rectangle.

For short sentences on a CPU, three plain matrix operations a group are faster than a fused kernel
over one rectangle of the longest sentence. The gradient is written out, so that a layer is one node
of the graph, and nothing but the weights is kept of the rectangles.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .fast_dropout import draw_mask, scale_kept
from .token_layout import Group, PackedLayout


def packed_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: list[Tensor],
    layout: PackedLayout,
    key_layout: PackedLayout,
    dropout: float = 0.0,
    scaling: float = 1.0,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """softmax(scaling q . k + mask) v for `[tokens, heads, width]`; a mask for each group."""
    pairs = list(zip(layout.groups, key_layout.groups, attention_mask, strict=True))
    return _PackedAttention.apply(query, key, value, pairs, dropout, scaling), None


def packed_masks(
    layout: PackedLayout, key_layout: PackedLayout, *, is_causal: bool, window: int | None
) -> list[Tensor]:
    """A mask for each group, `[sentences, 1, query_len, key_len]`: 0 where a query may look."""
    masks = []
    for queries, keys in zip(layout.groups, key_layout.groups, strict=True):
        allowed = keys.is_real[:, None, None, :].expand(-1, 1, queries.length, -1)
        distance = queries.positions.unsqueeze(1) - keys.positions
        if is_causal:
            allowed = allowed & (distance >= 0)
        if window is not None:
            allowed = allowed & (distance.abs() <= window)
        allowed = allowed | ~queries.is_real[:, None, :, None]  # no row without a key: no nan
        zeros = torch.zeros(allowed.shape, dtype=torch.float32, device="cpu")
        masks.append(zeros.masked_fill_(~allowed, -torch.inf))
    return masks


class _PackedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        pairs: list[tuple[Group, Group, Tensor]],
        dropout: float,
        scaling: float,
    ) -> Tensor:
        attended = query.new_empty(*query.shape[:2], value.shape[2])
        kept_for_backward = []
        for queries, keys, mask in pairs:
            weights = _attention_weights(
                queries.rectangle_of(query).mul_(scaling), keys.rectangle_of(key), mask
            )
            is_real = queries.is_real[:, None, :, None].to(weights.dtype)
            weights.view(len(is_real), -1, *weights.shape[1:]).mul_(is_real)
            kept = draw_mask(weights, dropout) if dropout else None
            used = weights if kept is None else scale_kept(kept, dropout, weights)
            queries.write_tokens(torch.bmm(used, keys.rectangle_of(value)), attended)
            kept_for_backward += [weights, kept]
        ctx.save_for_backward(query, key, value, *kept_for_backward)
        ctx.pairs, ctx.dropout, ctx.scaling = pairs, dropout, scaling
        return attended

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *kept_for_backward = ctx.saved_tensors
        gradients = [torch.empty_like(states) for states in (query, key, value)]
        for index, (queries, keys, _) in enumerate(ctx.pairs):
            weights, kept = kept_for_backward[2 * index : 2 * index + 2]
            for_attended = queries.rectangle_of(gradient)
            for_weights = torch.bmm(for_attended, keys.rectangle_of(value).transpose(1, 2))
            used = weights
            if kept is not None:
                used = scale_kept(kept, ctx.dropout, weights)
                for_weights = scale_kept(kept, ctx.dropout, for_weights)
            for_scores = torch._softmax_backward_data(for_weights, weights, -1, weights.dtype)
            for_scores.mul_(ctx.scaling)
            queries.write_tokens(torch.bmm(for_scores, keys.rectangle_of(key)), gradients[0])
            for_key = torch.bmm(for_scores.transpose(1, 2), queries.rectangle_of(query))
            keys.write_tokens(for_key, gradients[1])
            keys.write_tokens(torch.bmm(used.transpose(1, 2), for_attended), gradients[2])
        return *gradients, None, None, None


def _attention_weights(query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
    """softmax(q . k + mask), which torch computes in float32 whatever the query's precision."""
    scores = torch.bmm(query, key.transpose(1, 2))
    heads = len(scores) // len(mask)
    scores.view(-1, heads, *scores.shape[1:]).add_(mask.to(scores.dtype))
    return torch.softmax(scores, dim=-1, out=scores)
