"""R-Drop (Liang et al., 2021): two passes of dropout over a batch, and what draws them together.

Each of the logits' matrices is far larger than a processor's cache, and plain autograd would walk
through them two dozen times. Here some rows at a time become their loss and their gradients.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from vanilla_transformer.smoothed_loss import ROWS_IN_CACHE


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
            pair = first[rows].float(), second[rows].float()
            ours, theirs, terms = _some_rows(*pair, labels[rows], smoothing, weight)
            torch.div(ours, items, out=gradients[0][rows])
            torch.div(theirs, items, out=gradients[1][rows])
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

    With d = log p - log q, the divergence is (p . d - q . d) / 2, and its gradient with respect to
    p's logits is (p (d - p . d) + p - q) / 2.
    """
    counts = (labels >= 0).unsqueeze(1)
    label = labels.clamp(min=0).unsqueeze(1)
    target = torch.full_like(logits, smoothing / logits.shape[1])
    target.scatter_(1, label, 1 - smoothing + smoothing / logits.shape[1])
    log_p, log_q = logits.log_softmax(1), others.log_softmax(1)
    entropy = -torch.linalg.vecdot(target, log_p + log_q) / 2
    p, q, apart = log_p.exp(), log_q.exp(), log_p.sub_(log_q)
    of_p, of_q = (torch.linalg.vecdot(one, apart).unsqueeze(1) for one in (p, q))

    half = weight / 2
    ours = (apart - of_p).mul_(half).add_(half + 0.5).mul_(p)
    theirs = (of_q - apart).mul_(half).add_(half + 0.5).mul_(q)
    ours.sub_(q, alpha=half).sub_(target, alpha=0.5).mul_(counts)
    theirs.sub_(p, alpha=half).sub_(target, alpha=0.5).mul_(counts)
    terms = torch.stack([entropy, (of_p - of_q).squeeze(1) / 2])
    return ours, theirs, (terms * counts.squeeze(1)).sum(1)
