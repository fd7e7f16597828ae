"""Every process gets its part of every batch, from any place on, whoever makes it ready."""

from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from training.batching import Batches, Place
from training.loader import Loader
from training.objective import IGNORED
from training.recipe import BatchingSection

CONFIG = SimpleNamespace(pad_token_id=0, decoder_start_token_id=1)


class Corpus:
    """Pair n is n times the word n + 10, in every epoch one more."""

    def __init__(self, size):
        self.source_lengths = self.target_lengths = np.arange(size) % 7 + 1

    def pairs(self, indices, epoch):
        rows = [[int(n) + 10 + epoch] * int(self.source_lengths[n]) for n in indices]
        return [(row, row) for row in rows]


def loader(rank=0, processes=1, size=40, **section):
    corpus = Corpus(size)
    lengths = (corpus.source_lengths, corpus.target_lengths)
    batches = Batches(*lengths, source_tokens=30, target_tokens=30, seed=1)
    accelerator = SimpleNamespace(
        process_index=rank, num_processes=processes, device=torch.device("cpu")
    )
    return Loader(corpus, batches, BatchingSection(**section), CONFIG, accelerator)


def plain(work):
    """Work as nested lists, which can be compared."""
    pieces = [{name: one.tolist() for name, one in piece.items()} for piece in work.pieces]
    return work.place, work.pairs.tolist(), pieces, work.target_tokens


def first(count, place=None, **options):
    return [plain(one) for one in islice(loader(**options).after(place or Place()), count)]


def test_workers_make_the_same_batches():
    assert first(20, workers=2) == first(20)


@pytest.mark.parametrize("done", [1, 5, 9])
def test_from_any_place_on_comes_what_would_have_come(done):
    whole = first(20)
    place = whole[done - 1][0]

    assert first(20 - done, place) == whole[done:]


def test_after_the_last_batch_of_an_epoch_comes_the_next_epoch():
    epoch = [one for one in first(20) if one[0].epoch == 0]
    last = epoch[-1][0]

    (following,) = first(1, last)

    assert following[0] == Place(1, 1)


@pytest.mark.parametrize(("processes", "accumulation"), [(1, 3), (2, 1), (2, 2), (3, 20)])
def test_processes_and_pieces_share_a_batch(processes, accumulation):
    for number, (place, pairs, (whole,), tokens) in enumerate(first(8)):
        shared = [
            piece
            for rank in range(processes)
            for piece in first(8, rank=rank, processes=processes, accumulation=accumulation)[
                number
            ][2]
        ]
        rows = [row for piece in shared for row in piece["labels"] if row[0] != IGNORED]
        learned = [row[0] - 10 - place.epoch for row in rows]
        assert len(shared) == processes * accumulation
        assert sorted(learned) == sorted(pairs)
        words = sum(word != IGNORED for piece in shared for row in piece["labels"] for word in row)
        assert words == tokens == sum(word != IGNORED for row in whole["labels"] for word in row)


def test_the_generators_of_a_run_are_left_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()

    for workers in (0, 1):
        first(12, workers=workers)

    assert torch.equal(torch.get_rng_state(), before)
