"""What a step minimises: cross-entropy with smoothed labels (5.4), and R-Drop for small corpora."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.r_drop import agreeing_loss
from vanilla_transformer.word_ids import IGNORED

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


@dataclass(frozen=True)
class Objective:
    """Cross-entropy against smoothed labels, and R-Drop's term if its weight is not 0."""

    smoothing: float
    r_drop: float

    def __call__(self, model: Any, batch: Batch, target_tokens: int) -> tuple[Tensor, Tensor]:
        """The objective, and the cross-entropy in it.

        Both are divided by `target_tokens`, those of the whole step's batch: the losses of its
        pieces, wherever they are computed, add up to the loss of the batch.
        """
        if not self.r_drop:
            loss = model(**batch, num_items_in_batch=target_tokens).loss
            return loss, loss.detach()
        labels = batch["labels"]
        inputs = {name: one for name, one in batch.items() if name != "labels"}
        inputs["decoder_attention_mask"] = labels != IGNORED
        first, second = (model(**inputs).logits.flatten(0, 1) for _ in range(2))
        return agreeing_loss(
            first,
            second,
            labels.flatten(),
            smoothing=self.smoothing,
            weight=self.r_drop,
            items=target_tokens,
        )
