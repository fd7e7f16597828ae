"""Parallel text becomes numbers once: read, checked, tokenized, and kept as memory-mapped Arrow.

What is kept has a name made of all that it depends on: the files, the tokenizer, the options. So a
later run finds it, and a changed file is read anew.
"""

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from training.batching import Batches
from training.bpe_dropout import WordDropout
from training.corpus_checks import Checks
from training.corpus_report import CorpusReport
from training.corpus_store import TokenFile, TokenWriter
from training.number_words import PREFIX, number_corpus
from training.recipe import CorpusSection, Recipe
from training.tokenizing import Columns, Tokenizing
from training.whole_files import make_once
from vanilla_transformer import parallel_text
from vanilla_transformer.parallel_text import Corpus, Pair, Row, UnpairedTextError, describe_absent

PAIRS_AT_ONCE = 1_000  # given to the tokenizer
FORMAT = 2  # of what is kept; a higher number makes it anew, as changed built-in numbers must
TOKENS, REPORT = "pairs.arrow", "report.json"
MOST_UNKNOWN = 0.5  # of the first tokens; beyond, the tokenizer is one of other languages

Sentences = tuple[list[int], ...]  # ids of source and target, with BPE dropout their words' sizes

logger = logging.getLogger(__name__)


class Tokenized:
    """Training pairs: their token ids on disk, their lengths in memory."""

    def __init__(
        self, folder: Path, weights: list[float], dropout: WordDropout | None = None
    ) -> None:
        self.report = CorpusReport.load(folder / REPORT)
        self.tokens, self.dropout = TokenFile(folder / TOKENS), dropout
        self.source_lengths = self.tokens.lengths("source")
        self.target_lengths = self.tokens.lengths("target")
        if len(self) != self.report.pairs:
            raise ValueError(
                f"{folder} must hold {self.report.pairs:,} pairs, got {len(self):,}: delete it, "
                "and it is made anew."
            )
        self.weights: NDArray[np.float64] | None = None
        if any(weight != 1 for weight in weights):
            self.weights = np.repeat(weights, [one.pairs for one in self.report.corpora])

    def pairs(self, indices: NDArray[np.int64], epoch: int) -> list[tuple[list[int], list[int]]]:
        """The token ids of some pairs; with BPE dropout, as they are split in an epoch."""
        columns = [self.tokens.rows(indices, name) for name in self.tokens.columns]
        if self.dropout is None:
            return list(zip(*columns[:2], strict=True))
        found = []
        rows = zip(indices.tolist(), *columns, strict=True)
        for index, source, target, source_words, target_words in rows:
            draw = self.dropout.draw(epoch, index)
            split_source = self.dropout.split(source, source_words, draw)
            found.append((split_source, self.dropout.split(target, target_words, draw)))
        return found

    def __len__(self) -> int:
        return len(self.source_lengths)


def prepare_training(
    section: CorpusSection,
    tokenizer: Any,
    cache: Path,
    *,
    bpe_dropout: float = 0.0,
    seed: int = 0,
) -> Tokenized:
    """All training pairs, tokenized now or by an earlier run.

    Of several processes the main one goes first; the others find its work in the cache.
    """
    corpora = [find_one(section, corpus.places) for corpus in section.train]
    dropout = WordDropout(tokenizer, bpe_dropout, seed) if bpe_dropout else None
    folder = cache / _fingerprint(section, tokenizer, with_words=bool(bpe_dropout))
    make_once(folder, partial(_write, section, corpora, tokenizer, bool(bpe_dropout)))
    return Tokenized(folder, [corpus.weight for corpus in section.train], dropout)


def batches_of(corpus: Tokenized, recipe: Recipe) -> Batches:
    """The training pairs in batches, as the recipe wants them."""
    return Batches(
        corpus.source_lengths,
        corpus.target_lengths,
        corpus.weights,
        source_tokens=recipe.batching.source_tokens,
        target_tokens=recipe.batching.target_tokens,
        seed=recipe.seed,
    )


def read_held_out(section: CorpusSection, places: tuple[str, ...]) -> list[Pair]:
    """The pairs of a validation or test set."""
    corpora = find_corpora(section, places)
    pairs = [pair for corpus in corpora for pair in corpus]
    faults = [f"{one.name}: {fault}" for one in corpora for fault in one.skipped.describe()]
    if not pairs:
        raise ValueError(
            "A validation or test set must hold a pair, got none in "
            f"{', '.join(places) or 'no file'} ({'; '.join(faults) or 'no rows'})."
        )
    for fault in faults:
        logger.warning("Held-out rows were left out, and scores are of the others. %s", fault)
    return pairs


def open_held_out(section: CorpusSection) -> None:
    """Find every validation and test set, lest a misspelt one ends a run after hours."""
    for places in section.held_out:
        for corpus in find_corpora(section, places):
            next(corpus.rows(), None)


def find_corpora(
    section: CorpusSection, places: tuple[str, ...], *, skips_undecodable: bool = False
) -> list[Corpus]:
    """The corpora at some places, built-in ones among them, as the recipe wants to see them."""
    languages = (section.source, section.target)
    built_in = [place for place in places if place.startswith(PREFIX)]
    corpora = [
        *(number_corpus(place, languages) for place in built_in),
        *parallel_text.find_corpora(
            [place for place in places if place not in built_in],
            languages,
            skips_undecodable=skips_undecodable,
        ),
    ]
    return [_lowered(corpus) for corpus in corpora] if section.lowercase else corpora


def find_one(section: CorpusSection, places: tuple[str, ...]) -> Corpus:
    """The one corpus of an entry in `corpus.train`."""
    skips = section.checks.invalid_utf8 == "drop"
    try:
        corpora = find_corpora(section, places, skips_undecodable=skips)
    except UnpairedTextError as error:
        if len(places) > 1:
            raise
        raise ValueError(
            f"{error} In corpus.train two files are one entry: "
            f"{{places: [train.{section.source}, train.{section.target}]}}."
        ) from error
    if len(corpora) != 1:
        raise ValueError(
            "An entry of corpus.train must be one corpus, got "
            f"{' and '.join(corpus.name for corpus in corpora)}: give each an entry of its own."
            + describe_absent([place for place in places if not place.startswith(PREFIX)])
        )
    return corpora[0]


def _lowered(corpus: Corpus) -> Corpus:
    def read_rows() -> Iterator[Row]:
        for row in corpus.read_rows():
            pair = row.pair
            yield row._replace(pair=(pair[0].lower(), pair[1].lower())) if pair else row

    return Corpus(corpus.places, read_rows)


def _write(
    section: CorpusSection, corpora: list[Corpus], tokenizer: Any, with_words: bool, folder: Path
) -> None:
    """Tokenize all corpora into a folder."""
    held_out = [pair for places in section.held_out for pair in read_held_out(section, places)]
    checks = Checks(section, held_out)
    with (
        TokenWriter(folder / TOKENS, with_words=with_words) as writer,
        Tokenizing(tokenizer, with_words=with_words) as tokenizing,
    ):
        for corpus in corpora:
            counts = checks.begin(corpus)
            for rows, columns in tokenizing.of(_read(corpus)):
                counts.rows += len(rows)
                writer.write(_keep(rows, columns, tokenizer.unk_token_id, checks))
            checks.end()
            counts.pairs = writer.written - sum(one.pairs for one in checks.report.corpora[:-1])
    checks.refuse_faults()
    if not checks.report.pairs:
        raise ValueError(
            "A training corpus must hold a pair, got none that passed corpus.checks: "
            f"{'; '.join(checks.report.summary()[:-1])}."
        )
    checks.report.digest = writer.digest
    checks.report.save(folder / REPORT)


def _read(corpus: Corpus) -> Iterator[list[Row]]:
    """All rows, many at a time."""
    rows = iter(tqdm(corpus.rows(), f"tokenizing {corpus.name}", delay=2, unit=" rows"))
    try:
        while read := list(islice(rows, PAIRS_AT_ONCE)):
            yield read
    except ValueError as error:
        if isinstance(error.__cause__, UnicodeDecodeError):
            raise ValueError(
                f"{error} Or leave such lines out: corpus.checks.invalid_utf8: drop."
            ) from error
        raise


def _keep(
    rows: list[Row], columns: Columns, unknown: int | None, checks: Checks
) -> Iterator[Sentences]:
    """The token ids of the rows whose text and lengths are in order, with their words' sizes."""
    sentences = zip(*columns, strict=True)
    for row in rows:
        of_row = next(sentences) if row.pair else ()
        if checks.keep_text(row):
            source, target = of_row[:2]
            if checks.keep_tokens(row, len(source), len(target)):
                checks.count_tokens(source, target, unknown)
                yield of_row
    checks.refuse_unknown(MOST_UNKNOWN)


def _fingerprint(section: CorpusSection, tokenizer: Any, *, with_words: bool) -> str:
    """A name for all that the tokens depend on."""
    values = asdict(replace(section, tokenizer=None, vocabulary_size=0))
    train = [one.places for one in section.train]  # weights do not matter, nor do names of tests
    tests = [*section.tests.values()]
    places = [place for group in (*train, section.validation, *tests) for place in group]
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    values |= {
        "train": train,
        "tests": tests,
        "files": {place: _file_states(place) for place in places},
        "tokenizer": backend | {"padding": None, "truncation": None},  # what calls leave behind
        "split_special_tokens": tokenizer.split_special_tokens,
        "with_words": with_words,
        "format": FORMAT,
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _file_states(place: str) -> list[tuple[str, int, int]]:
    """What changes when a file does; nothing for what lies on the Hub or is built in."""
    if place.startswith(PREFIX):
        return []
    path = Path(parallel_text.parts_of_dataset(place)[0])  # folder::split is no path
    files = [path] if path.is_file() else sorted(path.rglob("*")) if path.is_dir() else []
    states = [(str(file.resolve()), file.stat()) for file in files]
    return [(name, state.st_size, state.st_mtime_ns) for name, state in states]
