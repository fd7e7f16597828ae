"""Counts the words of a corpus, so that nothing is cut, encoded or measured twice."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain


class WordCounts:
    """How often each word occurs, with the blank before it.

    All further work is done once for each different word: memory and time no longer depend on the
    length of the corpus. Cutting at blanks is exact because a token never reaches across one
    (`word_by_word.PIECES`).
    """

    def __init__(self) -> None:
        self._first: Counter[str] = Counter()  # "Hello" of "Hello my world"
        self._further: Counter[str] = Counter()  # "my" and "world", which stand after a blank

    def add(self, texts: list[str]) -> None:
        self._first.update(text.partition(" ")[0] for text in texts)
        self._further.update(chain.from_iterable(text.split(" ")[1:] for text in texts))

    def __add__(self, other: "WordCounts") -> "WordCounts":
        both = WordCounts()
        both._first = self._first + other._first
        both._further = self._further + other._further
        return both

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Each different word and its count: ("Hello", 1), (" my", 1), (" world", 1)."""
        yield from self._first.items()
        for word, count in self._further.items():
            yield " " + word, count
