"""The paper's loss (label smoothing, 5.4), with and without the logits in memory.

`smoothed_cross_entropy` is the definition. `projected_loss` gives the same number and the same
gradients straight from the hidden states: it projects some rows, turns their logits into their own
gradient in place, and keeps only the gradients of the hidden states and of the projection. A batch
of 2,000 target words over 37,000 classes would otherwise hold several matrices of 300 MB.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from transformers.modeling_outputs import Seq2SeqLMOutput

from .fast_linear import FastLinear, is_eager_on_cpu, multiply_transposed
from .word_ids import IGNORED

BYTES_AT_ONCE = 30 * 2**20  # of logits; the allocator reuses so much without asking the system
ROWS_IN_CACHE = 32  # rows of logits that stay in a processor's cache while we work on them
WORDS_IN_CACHE = 1024  # columns of logits likewise


def smoothed_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    smoothing: float = 0.0,
    num_items_in_batch: Tensor | int | None = None,
    **kwargs: Any,  # what the library passes to every loss
) -> Tensor:
    """Mean over the labelled words of cross-entropy against (1 - smoothing) label + smoothing / V.

    `num_items_in_batch` divides the sum instead of the number of words here, so that gradients
    accumulated over several batches weigh every word alike.
    """
    total = functional.cross_entropy(
        logits.flatten(0, -2).float(),
        labels.flatten().to(logits.device),
        ignore_index=IGNORED,
        label_smoothing=smoothing,
        reduction="sum",
    )
    return total / _number_of_items(labels, num_items_in_batch).to(total.device)


def projected_loss(
    hidden_states: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    smoothing: float,
    num_items_in_batch: Tensor | int | None = None,
) -> Tensor:
    """`smoothed_cross_entropy` of hidden_states @ weight.T, the logits never whole in memory."""
    labels = labels.flatten()
    labelled = (labels != IGNORED).nonzero().squeeze(1)
    items = _number_of_items(labels, num_items_in_batch)
    rows = hidden_states.flatten(0, -2).index_select(0, labelled)
    if torch.is_autocast_enabled("cpu"):
        rows = rows.to(torch.get_autocast_dtype("cpu"))
    return _ProjectedLoss.apply(rows, weight, labels[labelled], smoothing, float(items))


def can_project(labels: Tensor, head: nn.Linear) -> bool:
    """Whether `projected_loss` may stand for `head` and the loss.

    That wants a gradient to come, numbers our CPU code knows, and no wrapper, hook or adapter.
    """
    return (
        torch.is_grad_enabled()
        and type(head) in (FastLinear, nn.Linear)
        and head._parameters["bias"] is None
        and "forward" not in vars(head)
        and not (head._forward_hooks or head._forward_pre_hooks)
        and is_eager_on_cpu(labels, head.weight)
        and head.weight.dtype in (torch.float32, torch.bfloat16)
        and not (
            torch.is_autocast_enabled("cpu")
            and torch.get_autocast_dtype("cpu") == torch.float16  # gradients await their scaling
        )
    )


def logits_later(head: nn.Linear, hidden_states: Tensor) -> Callable[[], Tensor]:
    """What computes the logits of a training step when, and if, somebody reads them."""
    version = head.weight._version

    def compute() -> Tensor:
        if head.weight._version != version:
            raise RuntimeError(
                "logits must be read before the weights change, got changed weights: read "
                "outputs.logits before optimizer.step()."
            )
        return head(hidden_states)

    return compute


class LossWithLazyLogits(Seq2SeqLMOutput):
    """Outputs of a training step, whose logits are computed when somebody reads them."""

    @property
    def logits(self) -> Any:
        if callable(self._logits):
            self.logits = self._logits()
        return self._logits

    @logits.setter
    def logits(self, logits: Tensor | Callable[[], Tensor] | None) -> None:
        self._logits = logits

    def __getitem__(self, key: str | int | slice) -> Any:
        name = list(self)[key] if isinstance(key, int) else key
        return self.logits if name == "logits" else super().__getitem__(name)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401  # this is `get`


def _number_of_items(labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
    """What the summed loss is divided by; at least 1, so that a batch without a label costs 0."""
    if num_items_in_batch is None:
        num_items_in_batch = (labels != IGNORED).sum()
    if not isinstance(num_items_in_batch, Tensor):
        num_items_in_batch = torch.tensor(num_items_in_batch, device=labels.device)
    return num_items_in_batch.clamp(min=1)


class _ProjectedLoss(torch.autograd.Function):
    """The loss, with its gradients made on the way forward, while the logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, items: float
    ) -> Tensor:
        compute = weight.detach().to(hidden.dtype)
        for_hidden = torch.empty_like(hidden)
        for_weight = None
        if ctx.needs_input_grad[1]:
            for_weight = (torch.empty_like if len(hidden) else torch.zeros_like)(weight)
        total = torch.zeros((), dtype=torch.float32, device="cpu")
        rows_at_once = max(1, BYTES_AT_ONCE // (weight.shape[0] * hidden.element_size()))
        for start in range(0, len(hidden), rows_at_once):
            rows = slice(start, start + rows_at_once)
            logits = multiply_transposed(hidden[rows], compute)
            total += _into_gradients(logits, labels[rows], smoothing, items)
            for_hidden[rows] = multiply_transposed(logits, compute.t())
            if for_weight is not None:
                _add_weight_gradient(for_weight, logits, hidden[rows], is_first=start == 0)
        ctx.save_for_backward(for_hidden, for_weight)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [
            saved if saved is None or gradient == 1 else saved * gradient
            for saved in ctx.saved_tensors
        ]
        return *scaled, None, None, None


def _into_gradients(logits: Tensor, labels: Tensor, smoothing: float, items: float) -> Tensor:
    """Overwrite logits by their gradient, and return their loss.

    The gradient is (softmax - target) / items, with target = (1 - smoothing) one-hot +
    smoothing / V; the loss is log(sum(exp(logits))) - target . logits.
    """
    total = torch.zeros((), dtype=torch.float32, device="cpu")
    spread = torch.tensor(-smoothing / logits.shape[1] / items, device="cpu")
    for rows, label in zip(logits.split(ROWS_IN_CACHE), labels.split(ROWS_IN_CACHE), strict=True):
        exact, label = rows.float(), label.unsqueeze(1)  # float32 rows are not copied
        probabilities, losses = softmax_and_losses(exact, label, smoothing, out=exact)
        total += losses.sum()
        probabilities.scatter_add_(1, label, torch.full_like(losses, smoothing - 1))
        torch.add(spread, probabilities, alpha=1 / items, out=rows)
    return total / items


def softmax_and_losses(
    logits: Tensor, label: Tensor, smoothing: float, out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Each row's softmax, and its cross-entropy against its smoothed label: both have columns.

    `out` may be the logits themselves: what the loss needs of them is read first.
    """
    highest, chosen = logits.amax(1, keepdim=True), logits.gather(1, label)
    target_score = (1 - smoothing) * chosen + smoothing * logits.mean(1, keepdim=True)
    probabilities = torch.softmax(logits, dim=1, out=out)
    log_partition = highest - probabilities.amax(1, keepdim=True).log()
    return probabilities, log_partition - target_score


def _add_weight_gradient(
    total: Tensor, gradients: Tensor, hidden: Tensor, *, is_first: bool
) -> None:
    """Sum up gradients.T @ hidden in total."""
    if total.dtype == gradients.dtype != torch.float32:  # transposed as it is, for 16 bits
        torch.addmm(total, gradients.t(), hidden, beta=0 if is_first else 1, out=total)
        return
    transposed = hidden.t().contiguous()
    for start in range(0, len(total), WORDS_IN_CACHE):  # float32 copies, so in cache
        words = slice(start, start + WORDS_IN_CACHE)
        some = gradients[:, words].contiguous()
        product = multiply_transposed(transposed, some.t()).t()
        if is_first:
            total[words] = product
        else:
            total[words] += product.contiguous()
