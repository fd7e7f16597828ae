"""What a step minimises: cross-entropy with smoothed labels (5.4), and R-Drop for small corpora."""

from typing import Any

import torch
from torch import Tensor

IGNORED = -100  # labels that are no words

Batch = dict[str, Tensor]


def collate(pairs: list[tuple[list[int], list[int]]], padding: int, start: int) -> Batch:
    """Padded tensors: the decoder reads the target from `start` on and is asked for all of it."""
    sources, targets = zip(*pairs, strict=True)
    input_ids = _padded(list(sources), padding)
    labels = _padded(list(targets), IGNORED)
    shifted = [[start, *target[:-1]] for target in targets]
    return {
        "input_ids": input_ids,
        "attention_mask": _padded([[1] * len(source) for source in sources], 0),
        "decoder_input_ids": _padded(shifted, padding),
        "labels": labels,
    }


def loss_of(model: Any, batch: Batch, target_tokens: int, r_drop: float) -> tuple[Tensor, Tensor]:
    """The objective, and the cross-entropy in it.

    Both are divided by `target_tokens`, those of the whole step's batch: the losses of its pieces,
    wherever they are computed, add up to the loss of the batch.
    """
    if not r_drop:
        loss = model(**batch, num_items_in_batch=target_tokens).loss
        return loss, loss.detach()
    first, second = (model(**batch, num_items_in_batch=target_tokens) for _ in range(2))
    cross_entropy = (first.loss + second.loss) / 2
    is_word = batch["labels"] != IGNORED
    distance = symmetric_divergence(first.logits[is_word], second.logits[is_word])
    return cross_entropy + r_drop * distance / target_tokens, cross_entropy.detach()


def symmetric_divergence(logits: Tensor, others: Tensor) -> Tensor:
    """(KL(p, q) + KL(q, p)) / 2 of two distributions over words, summed over rows."""
    log_p, log_q = logits.float().log_softmax(dim=-1), others.float().log_softmax(dim=-1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2


def _padded(rows: list[list[int]], filler: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [filler] * (width - len(row)) for row in rows])
