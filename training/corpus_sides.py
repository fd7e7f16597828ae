"""Looks at a corpus' first pairs together: are its lines, and its languages, those of each other?

No single pair can tell. Lengths of translations go together, lengths of other lines do not; and
words of a language stand in a validation set on the side of that language.
"""

import math
from collections.abc import Iterator

import numpy as np

from vanilla_transformer.parallel_text import Pair

FIRST_PAIRS = 10_000  # looked at
FEWEST_PAIRS = 200  # tell little
LEAST_CORRELATION = 0.2  # of lengths' logarithms: 0.82 to 0.97 as published, 0.14 a line further
LEAST_SPREAD = 0.1  # of these logarithms; texts of one length say nothing
LEAST_KNOWN = 0.1  # of the words; of languages without blanks none are
SWAPPED = 2.0  # times as many words are the other side's; as published two fifths at most

Fault = tuple[str, str]  # the check's name in the recipe, and what it found


def words_of_sides(pairs: list[Pair]) -> list[set[str]]:
    """The words of all sources, and those of all targets."""
    return [{word for pair in pairs for word in _words(pair[side])} for side in (0, 1)]


class FirstPairs:
    """What the first pairs of one corpus have shown so far."""

    def __init__(self, held_out_words: list[set[str]]) -> None:
        self.held_out_words = held_out_words
        self.lengths: list[tuple[float, float]] = []
        self.total = [0, 0]  # words of source and target
        self.known = np.zeros((2, 2), np.int64)  # those that held-out sources and targets have

    def add(self, pair: Pair) -> bool:
        """Look at a pair; returns whether it was the last one to look at."""
        self.lengths.append((math.log(len(pair[0])), math.log(len(pair[1]))))
        for side, text in enumerate(pair):
            words = _words(text)
            self.total[side] += len(words)
            for other, known in enumerate(self.held_out_words):
                self.known[side, other] += sum(word in known for word in words)
        return len(self.lengths) == FIRST_PAIRS

    def faults(self) -> Iterator[Fault]:
        """What is wrong with all of them."""
        if len(self.lengths) < FEWEST_PAIRS:
            return
        if (correlation := self._correlation()) < LEAST_CORRELATION:
            yield (
                "misaligned",
                f"lengths of the two sides that do not go together (correlation {correlation:.2f}, "
                "translations have 0.8 and more), as if lines were missing on one side",
            )
        known = self.known / np.maximum(self.total, 1)[:, None]
        own, other = known.diagonal(), known[:, ::-1].diagonal()
        if (other >= LEAST_KNOWN).all() and (other > SWAPPED * own).all():
            yield (
                "swapped",
                f"words of the other side: of the sources' {other[0]:.0%} are in targets of the "
                f"validation and test pairs and {own[0]:.0%} in their sources",
            )

    def _correlation(self) -> float:
        lengths = np.array(self.lengths)
        if (lengths.std(axis=0) < LEAST_SPREAD).any():
            return 1.0
        return float(np.corrcoef(lengths, rowvar=False)[0, 1])


def _words(text: str) -> list[str]:
    return text.casefold().split()
