"""R-Drop (Liang et al., 2021): two passes of dropout over a batch, and what draws them together.

Each of the logits' matrices is far larger than a processor's cache, and plain autograd would walk
through them two dozen times. Here some rows at a time become their loss and their gradients.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from vanilla_transformer.smoothed_loss import ROWS_IN_CACHE, softmax_and_losses


def agreeing_loss(
    first: Tensor, second: Tensor, labels: Tensor, *, smoothing: float, weight: float, items: int
) -> tuple[Tensor, Tensor]:
    """The mean of two smoothed cross-entropies plus `weight` times the mean of both divergences.

    Both are sums over the rows with a label of 0 or more, divided by `items`; beside the total goes
    the first term alone.
    """
    total, entropy = _AgreeingLoss.apply(first, second, labels, smoothing, weight, items)
    return total, entropy


class _AgreeingLoss(torch.autograd.Function):
    """The loss, with its gradients made on the way forward."""

    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        labels: Tensor,
        smoothing: float,
        weight: float,
        items: int,
    ) -> tuple[Tensor, Tensor]:
        gradients = torch.empty_like(first), torch.empty_like(second)
        sums = torch.zeros(2, device=first.device)
        for start in range(0, len(labels), ROWS_IN_CACHE):
            rows = slice(start, start + ROWS_IN_CACHE)
            logits = first[rows].to(torch.float32, copy=True)
            others = second[rows].to(torch.float32, copy=True)
            ours, theirs, terms = _some_rows(logits, others, labels[rows], smoothing, weight)
            gradients[0][rows] = ours.div_(items)
            gradients[1][rows] = theirs.div_(items)
            sums += terms / items
        ctx.save_for_backward(*gradients)
        entropy = sums[0].clone()
        ctx.mark_non_differentiable(entropy)
        return sums[0] + weight * sums[1], entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [saved if gradient == 1 else saved * gradient for saved in ctx.saved_tensors]
        return *scaled, None, None, None, None


def _some_rows(
    logits: Tensor, others: Tensor, labels: Tensor, smoothing: float, weight: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of both matrices; the cross-entropy and the divergence, summed over the rows.

    Overwrites both. With d the difference of the logits, the divergence is (p . d - q . d) / 2, and
    its gradient with respect to p's logits is (p (d - p . d) + p - q) / 2: what the softmax takes
    off the logits is the same in a row, and cancels out.
    """
    counts = labels >= 0
    label = labels.clamp(min=0).unsqueeze(1)
    p, of_first = softmax_and_losses(logits, label, smoothing)
    q, of_second = softmax_and_losses(others, label, smoothing)
    entropy = (of_first + of_second).squeeze(1) / 2
    apart = logits.sub_(others)
    of_p, of_q = (torch.linalg.vecdot(one, apart).unsqueeze(1) for one in (p, q))

    half = weight / 2
    apart.mul_(half)
    ours = torch.add(apart, half + 0.5 - half * of_p, out=others).mul_(p).sub_(q, alpha=half)
    theirs = torch.sub(half + 0.5 + half * of_q, apart, out=apart).mul_(q).sub_(p, alpha=half)
    expected = torch.full_like(of_p, (smoothing - 1) / 2)
    for gradient in (ours, theirs):
        gradient.sub_(smoothing / 2 / gradient.shape[1]).scatter_add_(1, label, expected)
        gradient.mul_(counts.unsqueeze(1))
    divergence = (of_p - of_q).squeeze(1) / 2
    return ours, theirs, (torch.stack([entropy, divergence]) * counts).sum(1)
