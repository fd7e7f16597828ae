"""Brings the batches of a run to one process, made ready ahead by workers if it has some."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset

from training.batching import Batches, Indices, Place, part_of
from training.corpus import Tokenized
from training.interruption import leave_stopping_to_parent
from training.objective import Batch, TokenPair, collate, silenced
from training.recipe import BatchingSection

TIMEOUT = 600  # seconds without a batch from the workers, after which something is wrong


class Work(NamedTuple):
    """What one process does in a step, and where in the data that leaves the run."""

    place: Place
    pairs: Indices  # the whole batch, as numbers of pairs of the corpus
    pieces: list[Batch]  # this process's part
    target_tokens: int  # of the whole batch


class PiecesOfBatches(Dataset[tuple[list[Batch], int]]):
    """Item n: this process's part of batch n of an epoch, and the batch's target tokens."""

    def __init__(self, loader: "Loader", batches: list[Indices], epoch: int) -> None:
        self.loader, self.batches, self.epoch = loader, batches, epoch

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> tuple[list[Batch], int]:
        return self.loader.cut(self.batches[number], self.epoch)


class Loader:
    """All work of one process from any place on, for ever."""

    def __init__(
        self,
        corpus: Tokenized,
        batches: Batches,
        section: BatchingSection,
        config: Any,
        accelerator: Accelerator,
    ) -> None:
        self.corpus, self.batches, self.section = corpus, batches, section
        self.padding, self.start = config.pad_token_id, config.decoder_start_token_id
        self.rank, self.processes = accelerator.process_index, accelerator.num_processes
        self.device = accelerator.device

    def after(self, place: Place) -> Iterator[Work]:
        """What is to be done after a place."""
        while True:
            batches = self.batches.epoch(place.epoch)[place.batch :]
            made = self._made_ready(PiecesOfBatches(self, batches, place.epoch))
            for number, (batch, (pieces, tokens)) in enumerate(zip(batches, made, strict=True)):
                moved = [
                    {name: one.to(self.device, non_blocking=True) for name, one in piece.items()}
                    for piece in pieces
                ]
                yield Work(Place(place.epoch, place.batch + number + 1), batch, moved, tokens)
            place = Place(place.epoch + 1, 0)

    def cut(self, batch: Indices, epoch: int) -> tuple[list[Batch], int]:
        """This process's pieces of a batch, and the target tokens of all of it."""
        pairs = self.corpus.pairs(batch, epoch)
        parts = part_of(pairs, self.rank, self.processes, self.section.accumulation)
        pieces = [
            self._collate(part) if part else silenced(self._collate(pairs[:1])) for part in parts
        ]
        return pieces, sum(len(target) for _, target in pairs)

    def _collate(self, pairs: Sequence[TokenPair]) -> Batch:
        return collate(pairs, self.padding, self.start)

    def _made_ready(self, pieces: PiecesOfBatches) -> DataLoader[tuple[list[Batch], int]]:
        workers = self.section.workers
        return DataLoader(
            pieces,
            batch_size=None,
            num_workers=workers,
            worker_init_fn=leave_stopping_to_parent,
            timeout=TIMEOUT if workers else 0,
            pin_memory=self.device.type == "cuda",
            generator=torch.Generator(),  # of its own: else it draws from the one of dropout
        )
