"""Every pair is learned from, and batches keep their size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.batching import Batches, part_of

lengths = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=80)


def batches_of(pairs, tokens=40, seed=1, weights=None):
    source, target = np.array(pairs).T
    return Batches(source, target, weights, source_tokens=tokens, target_tokens=tokens, seed=seed)


@given(lengths, st.integers(0, 3))
def test_an_epoch_has_every_pair_once(pairs, epoch):
    found = np.concatenate(batches_of(pairs).epoch(epoch))

    assert sorted(found) == list(range(len(pairs)))


@given(lengths)
def test_no_padded_batch_is_larger_than_its_budget(pairs):
    batches = batches_of(pairs)

    for batch in batches.epoch(0):
        assert (batches.lengths[:, batch].max(axis=1).astype(int) * len(batch) <= 40).all()


@pytest.mark.parametrize(("longest", "size"), [(255, 1), (256, 2), (65_535, 2)])
def test_lengths_take_no_more_memory_than_the_longest_needs(longest, size):
    batches = batches_of([(longest, 3)] * 7, tokens=3 * longest)

    assert batches.lengths.itemsize == size
    assert sorted(map(len, batches.epoch(0))) == [1, 3, 3]
    assert batches.area(np.arange(3)) == 3 * (longest + 3)


def test_epochs_and_seeds_have_orders_of_their_own():
    pairs = [(1 + n % 7, 1 + n % 5) for n in range(200)]
    orders = [
        np.concatenate(batches_of(pairs, seed=seed).epoch(epoch)).tolist()
        for seed in (1, 2)
        for epoch in (1, 2)
    ]

    assert len({tuple(order) for order in orders}) == 4


def test_the_largest_batch_comes_first():
    batches = batches_of([(n % 19 + 1, n % 17 + 1) for n in range(300)])
    first, *others = batches.epoch(0)

    assert batches.area(first) == max(map(batches.area, [first, *others]))


def test_weights_say_how_often_a_pair_is_read():
    pairs = [(3, 3)] * 1_000
    weights = np.array([2.0] * 500 + [0.5] * 500)
    found = np.bincount(np.concatenate(batches_of(pairs, weights=weights).epoch(1)))

    assert (found[:500] == 2).all()
    assert 0.4 < found[500:].mean() < 0.6


def test_no_epoch_is_empty():
    pairs = [(3, 3)] * 5
    batches = batches_of(pairs, weights=np.full(len(pairs), 0.001))

    for epoch in range(20):
        (batch,) = batches.epoch(epoch)
        assert len(batch) == 1


@given(lengths, st.integers(1, 3), st.integers(1, 3))
def test_processes_share_a_batch_without_a_rest(pairs, processes, accumulation):
    batch = batches_of(pairs).epoch(0)[0]
    parts = [
        piece
        for rank in range(processes)
        for piece in part_of(batch, rank, processes, accumulation)
    ]

    assert len(parts) == processes * accumulation
    assert sorted(np.concatenate(parts)) == sorted(batch)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_what_fits_no_batch_is_refused():
    with pytest.raises(ValueError, match=r"room for the longest pair.*up to 41 and 3"):
        batches_of([(41, 3)])
    with pytest.raises(ValueError, match="at least one pair, got none"):
        Batches(np.array([]), np.array([]), source_tokens=9, target_tokens=9, seed=1)
