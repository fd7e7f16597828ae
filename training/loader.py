"""Brings the batches of a run to one process, made ready ahead by workers if the recipe has some."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader

from training.batching import Batches, Indices, Place, part_of
from training.corpus import Tokenized
from training.objective import Batch, collate


class Work:
    """What one process does in a step: its pieces, and the target tokens of the whole batch."""

    def __init__(self, place: Place, pieces: list[Batch], target_tokens: int) -> None:
        self.place, self.pieces, self.target_tokens = place, pieces, target_tokens


class WorkOf(torch.utils.data.Dataset[tuple[list[Batch], int]]):
    """The work of each batch of one epoch."""

    def __init__(self, corpus: Tokenized, batches: list[Indices], share: Any, collate: Any) -> None:
        self.corpus, self.batches, self.share, self.collate = corpus, batches, share, collate

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> tuple[list[Batch], int]:
        batch = self.batches[number]
        pieces = [
            self.collate(self.corpus.pairs(piece)) for piece in self.share(batch) if len(piece)
        ]
        return pieces, int(self.corpus.target_lengths[batch].sum())


class Loader:
    """All work of one process from any place on, for ever."""

    def __init__(
        self, corpus: Tokenized, batches: Batches, config: Any, accelerator: Any, recipe: Any
    ) -> None:
        self.corpus, self.batches, self.workers = corpus, batches, recipe.batching.workers
        self.share = partial(
            part_of,
            rank=accelerator.process_index,
            processes=accelerator.num_processes,
            accumulation=recipe.batching.accumulation,
        )
        self.collate = partial(
            collate, padding=config.pad_token_id, start=config.decoder_start_token_id
        )
        self.device = accelerator.device

    def after(self, place: Place) -> Iterator[Work]:
        """What is to be done after a place."""
        while True:
            batches = self.batches.epoch(place.epoch)[place.batch :]
            work = WorkOf(self.corpus, batches, self.share, self.collate)
            # Of its own generator: a loader would draw from the one that dropout draws from.
            ready = DataLoader(
                work,
                batch_size=None,
                num_workers=self.workers,
                collate_fn=None,
                generator=torch.Generator(),
            )
            for number, (pieces, target_tokens) in enumerate(ready, start=place.batch + 1):
                moved = [
                    {name: one.to(self.device) for name, one in piece.items()} for piece in pieces
                ]
                yield Work(Place(place.epoch, number), moved, target_tokens)
            place = Place(place.epoch + 1, 0)
