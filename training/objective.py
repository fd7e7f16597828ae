"""What a step minimises: cross-entropy with smoothed labels (5.4), and R-Drop for small corpora."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

IGNORED = -100  # labels that are no words

Batch = dict[str, Tensor]
TokenPair = tuple[list[int], list[int]]


def collate(pairs: Sequence[TokenPair], padding: int, start: int) -> Batch:
    """Padded tensors: the decoder reads the target from `start` on and is asked for all of it."""
    sources, targets = zip(*pairs, strict=True)
    labels = padded(targets, IGNORED)
    decoder_input_ids = labels.roll(1, dims=1).masked_fill_(labels == IGNORED, padding)
    decoder_input_ids[:, 0] = start
    return {
        "input_ids": padded(sources, padding),
        "attention_mask": padded([[1] * len(source) for source in sources], 0),
        "decoder_input_ids": decoder_input_ids,
        "labels": labels,
    }


def padded(rows: Any, filler: int) -> Tensor:
    """Rows of different lengths as a matrix, filled up on the right."""
    matrix = np.full((len(rows), max(map(len, rows))), filler, dtype=np.int64)
    for row, values in enumerate(rows):
        matrix[row, : len(values)] = values
    return torch.from_numpy(matrix)


def silenced(batch: Batch) -> Batch:
    """The same batch with nothing to learn from: for a process that a small batch left without."""
    return batch | {"labels": torch.full_like(batch["labels"], IGNORED)}


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
