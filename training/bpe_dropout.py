"""BPE dropout (Provilkov et al., 2020): in training, a word splits differently every time.

How it splits is a function of seed, epoch and pair alone, so a resumed run sees what it would have
seen: the library's own dropout draws from a generator that no seed reaches.
"""

import json
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

Ids = tuple[int, ...]
Merges = list[tuple[int, int, int]]  # rank, place and new id of each possible merge, best first
Draw = Callable[[], float]

LARGEST = 2**64  # seeds, epochs and pair numbers lie below
REMEMBERED_OUTCOMES = 2**18  # a process keeps some 100 MB at most; common words come back at once
REMEMBERED_MERGES = 2**17
WORTH_REMEMBERING = 2**-12  # the probability of an outcome


class Outcomes:
    """The splits of a word, each for an interval of chances: those found so far, in order."""

    __slots__ = ("highs", "lows", "plain", "splits")

    def __init__(self, plain: float) -> None:
        self.plain = plain  # below this chance a word stays as it is
        self.lows: list[float] = []
        self.highs: list[float] = []
        self.splits: list[Ids] = []

    def find(self, chance: float) -> Ids | None:
        place = bisect_right(self.lows, chance) - 1
        return self.splits[place] if place >= 0 and chance < self.highs[place] else None

    def add(self, low: float, high: float, split: Ids) -> None:
        place = bisect_right(self.lows, low)
        self.lows.insert(place, low)
        self.highs.insert(place, high)
        self.splits.insert(place, split)


class WordDropout:
    """Splits the words of tokenized sentences anew, leaving out each merge with a probability."""

    def __init__(self, tokenizer: Any, probability: float, seed: int) -> None:
        if not 0 <= probability <= 1:
            raise ValueError(f"probability must be between 0 and 1, got {probability}.")
        self.probability, self.seed = probability, seed % LARGEST
        vocabulary = tokenizer.get_vocab()
        self.merges = read_merges(tokenizer, vocabulary)
        never_split = set(tokenizer.added_tokens_decoder)  # ends of sentences and such
        self.letters = {
            index: tuple(vocabulary[letter] for letter in token)
            for token, index in vocabulary.items()
            if index not in never_split and all(letter in vocabulary for letter in token)
        }
        self._forget()

    def draw(self, epoch: int, pair: int) -> Draw:
        """The random numbers of one pair in one epoch, for its source first."""
        return Random((self.seed * LARGEST + epoch) * LARGEST + pair).random

    def split(self, ids: list[int], word_sizes: list[int], draw: Draw) -> list[int]:
        """The sentence with its words split anew; `word_sizes` says how many ids each of them has.

        What is no word, such as the end of a sentence, counts as one and stays whole.
        """
        found: list[int] = []
        start, known = 0, self._known.get
        for size in word_sizes:
            word = tuple(ids[start : start + size])
            outcomes = known(word) or self._begin(word)
            chance = draw()
            if chance < outcomes.plain:
                found += word
            else:
                found += outcomes.find(chance) or self._find_out(word, chance, outcomes)
            start += size
        return found

    def _find_out(self, word: Ids, chance: float, outcomes: Outcomes) -> Ids:
        low, high, split = self._merge(self._letters_of(word), chance)
        if high - low > WORTH_REMEMBERING:
            outcomes.add(low, high, split)
            self._grow()
        return split

    def _merge(self, ids: Ids, chance: float) -> tuple[float, float, Ids]:
        """Where merging ends for a chance, and from which one to which it ends there.

        In each step every possible merge is left out with a probability, and the best of the others
        is done. So a step divides the chances that led to it: most for the best merge, some of the
        rest for the second best, and what remains after the last for doing none.
        """
        low, high, keep = 0.0, 1.0, 1 - self.probability
        while True:
            for _, place, merged in self._merges_of(ids):
                middle = low + (high - low) * keep
                if chance < middle:
                    high, ids = middle, (*ids[:place], merged, *ids[place + 2 :])
                    break
                low = middle
            else:
                return low, high, ids

    def _merges_of(self, ids: Ids) -> Merges:
        """What can be merged, best first: of the lowest rank, then of the leftmost place."""
        if ids not in self._possible:
            if len(self._possible) >= REMEMBERED_MERGES:
                self._possible.clear()
            ranks = enumerate(map(self.merges.get, pairwise(ids)))
            self._possible[ids] = sorted((one[0], place, one[1]) for place, one in ranks if one)
        return self._possible[ids]

    def _letters_of(self, word: Ids) -> Ids:
        return tuple(letter for index in word for letter in self.letters[index])

    def _begin(self, word: Ids) -> Outcomes:
        """What is known of a word in the beginning: up to which chance it stays as it is."""
        plain = 1.0  # for what is never split
        if all(index in self.letters for index in word):
            _, plain, split = self._merge(self._letters_of(word), chance=-1.0)
            if split != word and self.probability < 1:
                raise ValueError(
                    "BPE dropout needs words as the tokenizer's merges make them, got ids "
                    f"{[*word]} where they make {[*split]}: set optimization.bpe_dropout to 0."
                )
        self._grow()
        self._known[word] = outcomes = Outcomes(plain)
        return outcomes

    def _grow(self) -> None:
        """Make room for one more outcome."""
        if self._remembered >= REMEMBERED_OUTCOMES:
            self._forget()
        self._remembered += 1

    def _forget(self) -> None:
        self._known: dict[Ids, Outcomes] = {}
        self._possible: dict[Ids, Merges] = {}
        self._remembered = 0

    def __getstate__(self) -> dict[str, Any]:
        """What is remembered stays behind: another process finds it out again."""
        return self.__dict__ | {"_known": {}, "_possible": {}, "_remembered": 0}


def read_merges(
    tokenizer: Any, vocabulary: dict[str, int]
) -> dict[tuple[int, int], tuple[int, int]]:
    """The rank and the new id of each pair of ids that merges."""
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    others = ("continuing_subword_prefix", "end_of_word_suffix", "ignore_merges", "byte_fallback")
    found = [name for name in others if model.get(name)]
    if model["type"] != "BPE" or found:
        raise ValueError(
            f"BPE dropout needs a plain BPE tokenizer, got {' with '.join([model['type'], *found])}"
            ": set optimization.bpe_dropout to 0."
        )
    return {
        (vocabulary[left], vocabulary[right]): (rank, vocabulary[left + right])
        for rank, (left, right) in enumerate(model["merges"])
    }
