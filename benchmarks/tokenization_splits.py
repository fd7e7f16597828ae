"""How fast sentences are split and joined again, into how many tokens, and what gets lost."""

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import transformers
from tqdm import tqdm

from benchmarks.machine import clock_for
from benchmarks.tokenization_contestants import CONTESTANTS, OURS, REFERENCE
from benchmarks.tokenization_text import HARD_STRINGS

SENTENCES_PER_BATCH = 1000


@dataclass(frozen=True)
class Speeds:
    """Sentences a second of every contestant in every round, at one kind of work."""

    work: str
    threads: int
    rounds: list[dict[str, float]]

    def of(self, name: str) -> float:
        """The median of the rounds."""
        return statistics.median(speeds[name] for speeds in self.rounds)

    def ratio(self, name: str) -> float:
        """The speed over that of the reference."""
        return self.of(name) / self.of(REFERENCE)


@dataclass(frozen=True)
class Splits:
    """One contestant: tokens of each validation file, end included, and what came back whole."""

    tokens: dict[tuple[str, str], int]
    exact: int
    hard_exact: int


def time_work(
    work: Callable[[Any], object], batches: list[Any], seconds: float, clock: Callable[[], float]
) -> float:
    """Go through the batches until the time is up; return sentences a second."""
    done, start, elapsed = 0, clock(), 0.0
    while elapsed < seconds or not done:
        for batch in batches:
            work(batch)
            done += len(batch)
        elapsed = clock() - start
    return done / elapsed


def measure_speeds(
    folder: Path, sentences: list[str], threads: int, rounds: int, seconds: float
) -> list[Speeds]:
    """Time encoding and decoding, everyone in turns; meant for a process of its own."""
    os.environ["RAYON_NUM_THREADS"] = str(threads)  # read when ours splits its first batch
    transformers.logging.set_verbosity_error()
    clock = clock_for(threads)
    starts = range(0, len(sentences), SENTENCES_PER_BATCH)
    batches = [sentences[start : start + SENTENCES_PER_BATCH] for start in starts]
    jobs: dict[str, dict[str, Callable[[], float]]] = {"encode": {}, "decode": {}}
    for name, open_contestant in CONTESTANTS.items():
        contestant = open_contestant(folder, threads)
        encoded = [contestant.encode(batch) for batch in batches]
        timed = partial(time_work, seconds=seconds, clock=clock)
        jobs["encode"][name] = partial(timed, contestant.encode, batches)
        jobs["decode"][name] = partial(timed, contestant.decode, encoded)
    found: dict[str, list[dict[str, float]]] = {work: [] for work in jobs}
    for _ in tqdm(range(rounds), desc=f"splitting and joining, threads: {threads}"):
        for work, timed_by_name in jobs.items():
            found[work].append({name: timed() for name, timed in timed_by_name.items()})
    return [Speeds(work, threads, made) for work, made in found.items()]


def examine_splits(folder: Path, files: dict[tuple[str, str], list[str]]) -> dict[str, Splits]:
    """Count tokens and the sentences that come back as they went in."""
    transformers.logging.set_verbosity_error()
    splits = {}
    for name, open_contestant in CONTESTANTS.items():
        contestant = open_contestant(folder, 1)
        tokens, exact = {}, 0
        for key, sentences in files.items():
            rows = contestant.encode(sentences)
            ends = 0 if contestant.adds_end else len(rows)
            tokens[key] = sum(map(len, rows)) + ends
            exact += count_equal(sentences, contestant.decode(rows))
        hard = contestant.decode(contestant.encode(HARD_STRINGS))
        splits[name] = Splits(tokens, exact, count_equal(HARD_STRINGS, hard))
    return splits


def count_equal(before: list[str], after: list[str]) -> int:
    """How many texts came back as they were: ["a", "b"] and ["a", "B"] -> 1."""
    return sum(one == other for one, other in zip(before, after, strict=True))


def token_ratio(splits: dict[str, Splits]) -> float:
    """The tokens of ours over those of the reference, all files together."""
    ours, reference = (sum(splits[name].tokens.values()) for name in (OURS, REFERENCE))
    return ours / reference
