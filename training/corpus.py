"""Parallel text becomes numbers once: read, checked, tokenized, and kept as memory-mapped Arrow.

What is kept has a name made of all that it depends on: the files, the tokenizer, the options. Pairs
that look wrong are left out or refused, as the recipe says, and every reason is counted.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from datasets.arrow_writer import ArrowWriter
from tqdm.auto import tqdm

from training.batching import Indices
from training.recipe import CorpusSection, TrainingCorpus
from vanilla_transformer.parallel_text import Corpus, Pair, find_corpora

AT_ONCE = 1_000  # pairs given to the tokenizer
FORMAT = 1  # of what is kept; a higher number makes old files anew


@dataclass
class Tokenized:
    """Pairs of token ids on disk, their lengths in memory."""

    rows: Dataset
    source_lengths: Indices
    target_lengths: Indices
    weights: np.ndarray[Any, np.dtype[np.float64]] | None = None

    def pairs(self, indices: Indices, epoch: int = 0) -> list[tuple[list[int], list[int]]]:
        """The token ids of some pairs."""
        found = self.rows[indices]
        return list(zip(found["source"], found["target"], strict=True))

    def __len__(self) -> int:
        return len(self.source_lengths)


class Suspicion:
    """Decides which pairs are left out, and counts why."""

    def __init__(self, section: CorpusSection, held_out: list[Pair]) -> None:
        self.section, self.counts = section, Counter[str]()
        self.held_out = {_key(text) for pair in held_out for text in pair}
        self.seen: set[int] = set()

    def of_text(self, pair: Pair) -> str:
        """Why a pair of texts looks wrong: "" if it does not."""
        if self.section.overlap != "keep" and any(_key(text) in self.held_out for text in pair):
            return self._judge("overlap", "a side that validation or test has")
        if self.section.duplicates != "keep":
            key = _key("\n".join(pair))
            if key in self.seen:
                return self._judge("duplicates", "the same text as an earlier pair")
            self.seen.add(key)
        return ""

    def of_tokens(self, source: list[int], target: list[int]) -> str:
        """Why a pair of token lists looks wrong."""
        shorter, longer = sorted((len(source), len(target)))
        if longer > self.section.max_length:
            return self._count(f"more than {self.section.max_length} tokens on a side")
        if longer > self.section.max_length_ratio * shorter:
            ratio = self.section.max_length_ratio
            return self._count(f"a side more than {ratio:g} times as long as the other")
        return ""

    def _judge(self, policy: str, fault: str) -> str:
        if getattr(self.section, policy) == "refuse":
            raise ValueError(
                f"corpus.{policy} is 'refuse', and a training pair has {fault}: clean the corpus, "
                f"or set corpus.{policy} to 'drop' or 'keep'."
            )
        return self._count(fault)

    def _count(self, fault: str) -> str:
        self.counts[fault] += 1
        return fault


def prepare_training(
    section: CorpusSection, tokenizer: Any, cache: Path
) -> tuple[Tokenized, list[str]]:
    """All training pairs, and what there is to say about them, a line each."""
    parts, report = [], []
    for one in section.train:
        part, lines = _prepare_part(section, one, tokenizer, cache)
        parts.append((part, one.weight))
        report += lines
    return _together(parts), report


def read_held_out(section: CorpusSection, places: tuple[str, ...]) -> list[Pair]:
    """The pairs of a validation or test set, as they are."""
    corpora = find_corpora(list(places), (section.source, section.target))
    pairs = [_cased(pair, section) for corpus in corpora for pair in corpus]
    if not pairs:
        raise ValueError(f"A validation or test set must hold a pair, got none in {places}.")
    return pairs


def _prepare_part(
    section: CorpusSection, part: TrainingCorpus, tokenizer: Any, cache: Path
) -> tuple[Tokenized, list[str]]:
    corpora = find_corpora(list(part.places), (section.source, section.target))
    folder = cache / _fingerprint(section, part, tokenizer)
    if not folder.exists():
        _write(section, corpora, tokenizer, folder)
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    lengths = np.load(folder / "lengths.npy", allow_pickle=False)
    rows = Dataset.from_file(str(folder / "pairs.arrow"))
    return Tokenized(rows, lengths[0], lengths[1]), summary


def _write(section: CorpusSection, corpora: list[Corpus], tokenizer: Any, folder: Path) -> None:
    """Tokenize into a folder that has its name only when it is whole."""
    staged = folder.with_name(f".{folder.name}.{os.getpid()}")
    staged.mkdir(parents=True)
    held_out = [
        pair
        for places in (section.validation, *section.tests.values())
        for pair in read_held_out(section, places)
    ]
    suspicion, lengths = Suspicion(section, held_out), []
    with ArrowWriter(path=str(staged / "pairs.arrow")) as writer:
        for source, target in _tokenized(section, corpora, tokenizer, suspicion):
            if not suspicion.of_tokens(source, target):
                writer.write({"source": source, "target": target})
                lengths.append((len(source), len(target)))
        writer.finalize()
    np.save(staged / "lengths.npy", np.array(lengths, dtype=np.int64).reshape(-1, 2).T)
    summary = _describe(corpora, suspicion, len(lengths))
    (staged / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    staged.rename(folder)


def _tokenized(
    section: CorpusSection, corpora: list[Corpus], tokenizer: Any, suspicion: Suspicion
) -> Iterator[tuple[list[int], list[int]]]:
    """Token ids of all pairs that look right, many encoded at once."""
    waiting: list[Pair] = []
    for corpus in corpora:
        for pair in tqdm(corpus, desc=f"reading {corpus.name}", delay=2, unit=" pairs"):
            cased = _cased(pair, section)
            if not suspicion.of_text(cased):
                waiting.append(cased)
            if len(waiting) == AT_ONCE:
                yield from _encode(tokenizer, waiting)
                waiting = []
    yield from _encode(tokenizer, waiting)


def _encode(tokenizer: Any, pairs: list[Pair]) -> Iterator[tuple[list[int], list[int]]]:
    if pairs:
        sources, targets = zip(*pairs, strict=True)
        encode = lambda texts: tokenizer(list(texts), verbose=False)["input_ids"]  # noqa: E731
        yield from zip(encode(sources), encode(targets), strict=True)


def _together(parts: list[tuple[Tokenized, float]]) -> Tokenized:
    """Several corpora as one, each pair with the weight of its corpus."""
    from datasets import concatenate_datasets

    rows = concatenate_datasets([part.rows for part, _ in parts])
    weights = None
    if any(weight != 1 for _, weight in parts):
        weights = np.concatenate([np.full(len(part), weight) for part, weight in parts])
    return Tokenized(
        rows,
        np.concatenate([part.source_lengths for part, _ in parts]),
        np.concatenate([part.target_lengths for part, _ in parts]),
        weights,
    )


def _describe(corpora: list[Corpus], suspicion: Suspicion, kept: int) -> list[str]:
    lines = [
        f"{corpus.name}: {corpus.num_pairs:,} pairs read"
        + "".join(f"; left out {line}" for line in corpus.skipped.describe())
        for corpus in corpora
    ]
    lines += [f"left out {count:,} with {fault}" for fault, count in suspicion.counts.most_common()]
    return [*lines, f"kept {kept:,} pairs"]


def _fingerprint(section: CorpusSection, part: TrainingCorpus, tokenizer: Any) -> str:
    """A name for all that the tokens depend on."""
    wanted = asdict(section) | {"train": part.places, "format": FORMAT}
    places = [*part.places, *section.validation]
    places += [place for test in section.tests.values() for place in test]
    wanted["files"] = [_file_state(Path(place)) for place in places]
    wanted["vocabulary"] = tokenizer.backend_tokenizer.to_str()
    text = json.dumps(wanted, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _file_state(path: Path) -> list[Any]:
    """What changes when a file does."""
    files = [path] if path.is_file() else sorted(path.rglob("*")) if path.is_dir() else []
    return [(str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in files]


def _cased(pair: Pair, section: CorpusSection) -> Pair:
    return (pair[0].lower(), pair[1].lower()) if section.lowercase else pair


def _key(text: str) -> int:
    """A number for a text, whatever its case and blanks."""
    plain = " ".join(text.casefold().split()).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(plain, digest_size=8).digest(), "big")
