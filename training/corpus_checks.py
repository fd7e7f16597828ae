"""Looks at every row before it is learned from, and does with it what the recipe says."""

import hashlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from training.corpus_report import EXAMPLES, CorpusCounts, CorpusReport, Finding
from training.corpus_sides import Fault, FirstPairs, words_of_sides
from training.recipe import CorpusSection
from vanilla_transformer.parallel_text import EMPTY, EXCERPT, INVALID_UTF8, Corpus, Pair, Row

CHECK_OF_FAULT = {EMPTY: "empty", INVALID_UTF8: "invalid_utf8"}  # others: "unreadable"
RECENT = 2**18  # keys in a set of Python, sixty bytes each; older ones take eight
KEYS = 2**64


class RefusedCorpusError(ValueError):
    """Rows have faults that the recipe refuses; `report` tells of the whole corpus."""

    def __init__(self, message: str, report: CorpusReport) -> None:
        super().__init__(message)
        self.report = report


class Checks:
    """Decides which rows are kept, and reports why others were not."""

    def __init__(self, section: CorpusSection, held_out: list[Pair]) -> None:
        self.section, self.report = section, CorpusReport()
        self.held_out = [{_key(pair[side]) for pair in held_out} for side in (0, 1)]
        self.seen = SeenKeys()
        self.held_out_words = words_of_sides(held_out)
        self._first: FirstPairs | None = None
        self._examples: list[str] = []
        self._findings: dict[Fault, Finding] = {}

    def begin(self, corpus: Corpus) -> CorpusCounts:
        """The rows that come next are of this corpus."""
        self.report.corpora.append(CorpusCounts(corpus.name))
        self._first, self._examples = FirstPairs(self.held_out_words), []
        return self.report.corpora[-1]

    def end(self) -> None:
        """No more rows of this corpus come: what few there were are looked at together."""
        self._look_at_first()

    def keep_text(self, row: Row) -> bool:
        """Whether a row's text is kept; what it is made of is looked at later."""
        if self._first and row.pair:
            if len(self._examples) < EXAMPLES:
                self._examples.append(_describe(row, self.report.corpora[-1].name))
            if self._first.add(row.pair):
                self._look_at_first()
        return all(self._keep(fault, row) for fault in self._faults_of_text(row))

    def keep_tokens(self, row: Row, source: int, target: int) -> bool:
        """Whether a row with so many tokens is kept."""
        return all(self._keep(fault, row) for fault in self._faults_of_lengths(source, target))

    def count_tokens(self, source: list[int], target: list[int], unknown: int | None) -> None:
        """Add a pair's tokens to the report."""
        self.report.source_tokens += len(source)
        self.report.target_tokens += len(target)
        if unknown is not None:
            self.report.unknown_tokens += source.count(unknown) + target.count(unknown)

    def refuse_unknown(self, most: float) -> None:
        """Refuse a tokenizer that knows too few of the tokens so far."""
        tokens = self.report.source_tokens + self.report.target_tokens
        if self.report.unknown_tokens > most * tokens:
            raise ValueError(
                f"The tokenizer must know the corpus, got {self.report.unknown_tokens:,} unknown "
                f"tokens of {tokens:,}: name one of these languages in corpus.tokenizer, or leave "
                "that out to have one learned."
            )

    def refuse_faults(self) -> None:
        """After the last row: refuse the corpus if the recipe refuses a fault that rows have."""
        refused = (one for one in self.report.findings if one.policy == "refuse")
        if finding := next(refused, None):
            check = f"corpus.checks.{finding.check}"
            raise RefusedCorpusError(
                f"{check} is 'refuse', got {finding.describe()}, the first {finding.examples[0]}. "
                f"Mend the corpus or set {check} to 'drop'.",
                self.report,
            )

    def _faults_of_text(self, row: Row) -> Iterator[Fault]:
        if row.pair is None:
            yield CHECK_OF_FAULT.get(row.fault, "unreadable"), row.fault
            return
        source, target = map(_key, row.pair)
        if row.pair[0] == row.pair[1]:
            yield "untranslated", "the same text on both sides"
        if source in self.held_out[0] or target in self.held_out[1]:
            yield "overlap", "a side that a validation or test pair has"
        if self.seen.add((31 * source + target) % KEYS):
            yield "duplicates", "both sides as in an earlier pair"

    def _faults_of_lengths(self, *lengths: int) -> Iterator[Fault]:
        longest, ratio = self.section.max_length, self.section.max_length_ratio
        if max(lengths) > longest:
            yield "over_long", f"more than {longest} tokens on a side"
        if max(lengths) > ratio * min(lengths):
            yield "length_ratio", f"more than {ratio:g} times as many tokens on one side"

    def _look_at_first(self) -> None:
        """Refuse a corpus whose first pairs look wrong together, or report it."""
        first, self._first = self._first, None
        if first is None:
            return
        for check, text in first.faults():
            policy, name = getattr(self.section.checks, check), self.report.corpora[-1].name
            if policy == "refuse":
                raise ValueError(
                    f"corpus.checks.{check} is 'refuse', and {name} has {text}, got "
                    f"{self._examples[0]}. Mend the corpus or the recipe, or set "
                    f"corpus.checks.{check} to 'keep'."
                )
            count = len(first.lengths)
            self.report.findings.append(Finding(check, policy, text, count, self._examples))

    def _keep(self, fault: Fault, row: Row) -> bool:
        check, text = fault
        policy = getattr(self.section.checks, check)
        if fault not in self._findings:
            self._findings[fault] = Finding(check, policy, text)
            self.report.findings.append(self._findings[fault])
        finding = self._findings[fault]
        finding.count += 1
        if len(finding.examples) < EXAMPLES:
            finding.examples.append(_describe(row, self.report.corpora[-1].name))
        return bool(policy == "keep")


class SeenKeys:
    """A set of 64-bit numbers that only grows: most of them sorted, eight bytes each."""

    def __init__(self) -> None:
        self._sorted: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._recent: set[int] = set()

    def add(self, key: int) -> bool:
        """Add a number; returns whether it was there."""
        if key in self._recent or self._is_sorted_in(np.uint64(key)):
            return True
        self._recent.add(key)
        if len(self._recent) == RECENT:
            recent = np.fromiter(self._recent, dtype=np.uint64)
            self._sorted = np.sort(np.concatenate([self._sorted, recent]))
            self._recent.clear()
        return False

    def _is_sorted_in(self, key: np.uint64) -> bool:
        place = self._sorted.searchsorted(key)
        return bool(place < len(self._sorted) and self._sorted[place] == key)


def _key(text: str) -> int:
    """A number for a text, whatever its case and blanks."""
    plain = " ".join(text.casefold().split()).encode()
    return int.from_bytes(hashlib.blake2b(plain, digest_size=8).digest(), "little")


def _describe(row: Row, corpus: str) -> str:
    place = f"row {row.number:,} of {corpus}"
    if row.pair is None:
        return place
    source, target = (
        repr(text if len(text) <= EXCERPT else text[:EXCERPT] + "...") for text in row.pair
    )
    return f"{place}: {source} and {target}"
