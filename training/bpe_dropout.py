"""BPE dropout (Provilkov et al., 2020): in training, a word splits differently every time.

How it splits is a function of seed, epoch and pair alone, so a resumed run sees what it would have
seen: the library's own dropout draws from a generator that no seed reaches.
"""

import json
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

Ids = tuple[int, ...]
Merges = list[tuple[int, int, int]]  # rank, place and new id of each possible merge, best first
Draw = Callable[[], float]

LARGEST = 2**64  # seeds, epochs and pair numbers lie below
REMEMBERED_WORDS = 2**16  # a process keeps some 100 MB at most; common words come back at once
REMEMBERED_SPLITS = 2**17


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
        self._ways: dict[Ids, tuple[float, list[Ids]]] = {}
        self._possible: dict[Ids, Merges] = {}

    def draw(self, epoch: int, pair: int) -> Draw:
        """The random numbers of one pair in one epoch, for its source first."""
        return Random((self.seed * LARGEST + epoch) * LARGEST + pair).random

    def split(self, ids: list[int], word_sizes: list[int], draw: Draw) -> list[int]:
        """The sentence with its words split anew; `word_sizes` says how many ids each of them has.

        What is no word, such as the end of a sentence, counts as one and stays whole.
        """
        found: list[int] = []
        start, remembered = 0, self._ways.get
        for size in word_sizes:
            word = tuple(ids[start : start + size])
            whole, way = remembered(word) or self._remember(word)
            chance = draw()
            found += word if chance < whole else self._walk(way, chance, draw)
            start += size
        return found

    def _walk(self, way: list[Ids], chance: float, draw: Draw) -> Ids:
        """Where merging ends if, in each step, every possible merge may be left out.

        `chance` says how many steps of the plain way are taken before one leaves its merge out.
        """
        keep, taken = 1 - self.probability, 0
        while chance < keep and taken < len(way) - 2:  # the second guards against rounding
            chance /= keep
            taken += 1
        ids = way[taken]
        merges = self._merges_of(ids)[1:]
        while True:
            for _, place, merged in merges:
                if draw() < keep:
                    ids = (*ids[:place], merged, *ids[place + 2 :])
                    break
            else:
                return ids
            merges = self._possible.get(ids) or self._merges_of(ids)

    def _merges_of(self, ids: Ids) -> Merges:
        """What can be merged, best first: of the lowest rank, then of the leftmost place."""
        if ids not in self._possible:
            if len(self._possible) >= REMEMBERED_SPLITS:
                self._possible.clear()
            ranks = enumerate(map(self.merges.get, pairwise(ids)))
            self._possible[ids] = sorted((one[0], place, one[1]) for place, one in ranks if one)
        return self._possible[ids]

    def _remember(self, word: Ids) -> tuple[float, list[Ids]]:
        """The probability that a word stays whole, and the plain way there from its letters."""
        if len(self._ways) >= REMEMBERED_WORDS:
            self._ways.clear()
        way = [word]
        if all(index in self.letters for index in word):
            way = [tuple(letter for index in word for letter in self.letters[index])]
            while merges := self._merges_of(way[-1]):
                _, place, merged = merges[0]
                way.append((*way[-1][:place], merged, *way[-1][place + 2 :]))
        if way[-1] != word:
            raise ValueError(
                "BPE dropout needs words as the tokenizer's merges make them, got ids "
                f"{[*word]} where they make {[*way[-1]]}: set optimization.bpe_dropout to 0."
            )
        self._ways[word] = ((1 - self.probability) ** (len(way) - 1) if len(way) > 1 else 2.0, way)
        return self._ways[word]

    def __getstate__(self) -> dict[str, Any]:
        """What is remembered stays behind: another process finds it out again."""
        return self.__dict__ | {"_ways": {}, "_possible": {}}


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
