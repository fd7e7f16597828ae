"""Which sentences a step learns from: similar lengths together, so many tokens, in random order.

The order is a function of seed and epoch, and a step's batch is the same however many processes
share it: each takes its part, and accumulation cuts that once more. So a run can go on anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Lengths = NDArray[np.int32] | Indices
T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """Where in its data a run is: so many batches of this epoch are done."""

    epoch: int = 0
    batch: int = 0


class Batches:
    """The batches of every epoch over sentence pairs of known lengths."""

    def __init__(
        self,
        source_lengths: Lengths,
        target_lengths: Lengths,
        weights: Indices | NDArray[np.float64] | None = None,
        *,
        source_tokens: int,
        target_tokens: int,
        seed: int,
    ) -> None:
        """Lengths and weights have one number for each pair.

        A weight says how often the pair is read in an epoch; a broken one is rounded up or down by
        chance, but no epoch is empty. Token numbers are the most that a padded batch holds on one
        side.
        """
        largest = max(source_lengths.max(initial=0), target_lengths.max(initial=0))
        smallest = np.min_scalar_type(int(largest))  # every process has them in memory
        self.lengths = np.stack([source_lengths, target_lengths], dtype=smallest, casting="unsafe")
        self.budgets = np.array([source_tokens, target_tokens])
        self.weights, self.seed = weights, seed
        longest = self.lengths.max(axis=1, initial=0)
        if (longest > self.budgets).any():
            raise ValueError(
                "A batch must have room for the longest pair, got source_tokens="
                f"{source_tokens}, target_tokens={target_tokens} for a pair of up to "
                f"{longest[0]} and {longest[1]}: raise them or lower corpus.max_length."
            )
        if not len(source_lengths):
            raise ValueError("A training corpus must hold at least one pair, got none.")

    def epoch(self, number: int) -> list[Indices]:
        """All batches of an epoch; in the first one the largest leads, so that it fails early."""
        draw = np.random.default_rng([self.seed, number])
        batches = self._cut(self._sorted(self._drawn(draw), draw))
        draw.shuffle(batches)
        if number == 0:
            largest = max(range(len(batches)), key=lambda one: self.area(batches[one]))
            batches.insert(0, batches.pop(largest))
        return batches

    def area(self, batch: Indices) -> int:
        """How many places a padded batch has on both sides."""
        return int(self.lengths[:, batch].max(axis=1).sum() * len(batch))

    def padding(self, number: int = 0) -> float:
        """The share of padding in an epoch's batches."""
        batches = self.epoch(number)
        places = sum(self.area(batch) for batch in batches)
        return 1 - sum(int(self.lengths[:, batch].sum()) for batch in batches) / places

    def _drawn(self, draw: np.random.Generator) -> Indices:
        """The pairs of an epoch, each as often as its weight says, in random order."""
        count = self.lengths.shape[1]
        if self.weights is None:
            return draw.permutation(count)
        times = np.floor(self.weights + draw.random(count)).astype(np.int64)
        if not times.any():  # small weights of few pairs
            times[draw.integers(count)] = 1
        return draw.permutation(np.repeat(np.arange(count), times))

    def _sorted(self, pairs: Indices, draw: np.random.Generator) -> Indices:
        """Pairs of similar lengths side by side: by target, then up and down by source."""
        source, target = self.lengths[:, pairs]
        # Neighbours stay alike across targets.
        upwards = np.where(target % 2, source, -source.astype(np.int32))
        return pairs[np.lexsort((upwards, target))]

    def _cut(self, pairs: Indices) -> list[Indices]:
        """As many pairs at a time as padded to the longest fit the budgets."""
        batches, start, longest = [], 0, np.zeros(2, dtype=np.int64)
        for place, lengths in enumerate(self.lengths[:, pairs].T):
            grown = np.maximum(longest, lengths)
            if (grown * (place + 1 - start) > self.budgets).any():
                batches.append(pairs[start:place])
                start, grown = place, lengths.astype(np.int64)
            longest = grown
        return [*batches, pairs[start:]]


def part_of(batch: Sequence[T], rank: int, processes: int, accumulation: int) -> list[Sequence[T]]:
    """What one process learns of a batch, in as many pieces as it accumulates.

    Pairs are dealt in turn, so that all pieces are alike; small batches leave some empty.
    """
    pieces = processes * accumulation
    return [batch[rank * accumulation + piece :: pieces] for piece in range(accumulation)]
