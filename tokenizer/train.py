"""Makes a tokenizer from parallel text: `python -m tokenizer.train CORPUS... --output FOLDER`."""

import random
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from tokenizer.bundle import claim_folder, write_bundle
from tokenizer.byte_pairs import SMALLEST_VOCABULARY, learn_tokenizer
from tokenizer.measures import measure
from tokenizer.readme import describe_bundle
from tokenizer.word_counts import WordCounts
from vanilla_transformer.parallel_text import Corpus, Pair, find_corpora

PAIRS_AT_ONCE = 1_000
MOST = 2**24  # beyond, a number was mistyped


@dataclass(frozen=True)
class Options:
    """How a tokenizer is made; the command line's options, where each is explained."""

    languages: tuple[str, ...] = ("en", "de")
    vocabulary_size: int = 37_000  # the paper's, for English-German; 32,000 for English-French
    min_frequency: int = 2
    temperature: float = 1.0
    seed: int = 0
    licence: str = "not stated"

    def __post_init__(self) -> None:
        if len(set(self.languages)) != 2 or len(self.languages) != 2 or "" in self.languages:
            raise ValueError(f"languages must be two names like en,de, got {self.languages}.")
        if not self.temperature >= 1:  # NaN is neither below nor above
            raise ValueError(f"temperature must be at least 1, got {self.temperature}.")
        if not 1 <= self.min_frequency <= MOST:
            raise ValueError(
                f"min_frequency must be between 1 and {MOST:,}, got {self.min_frequency}."
            )
        if not SMALLEST_VOCABULARY <= self.vocabulary_size <= MOST:
            raise ValueError(
                f"vocabulary_size must be between {SMALLEST_VOCABULARY} (256 bytes, 3 special "
                f"tokens, a multiple of 8) and {MOST:,}, got {self.vocabulary_size}."
            )


def make_bundle(
    places: list[str], folder: Path, options: Options, *, force: bool = False
) -> PreTrainedTokenizerFast:
    """Read the corpora once, learn a tokenizer from their words, and write it to the folder."""
    corpora = find_corpora(places, options.languages)
    claim_folder(folder, force=force)
    source, target = count_words(corpora, options)
    report_skipped(corpora)
    tokenizer = learn_tokenizer(source + target, options.vocabulary_size, options.min_frequency)
    measures = {
        language: measure(tokenizer, counts)
        for language, counts in zip(options.languages, (source, target), strict=True)
    }
    command = describe_command(corpora, folder, options)
    write_bundle(
        tokenizer, describe_bundle(tokenizer, corpora, measures, command, options.licence), folder
    )
    return tokenizer


def count_words(corpora: list[Corpus], options: Options) -> tuple[WordCounts, WordCounts]:
    """The words of source and target, each side drawn with the probability that it is kept."""
    keep = (1.0, 1.0)
    if options.temperature > 1:
        keep = keep_probabilities(count_bytes(corpora), options.temperature)
    drawn = random.Random(options.seed)
    sides = (WordCounts(), WordCounts())
    for corpus in corpora:
        for pairs in batches(corpus, f"counting the words of {corpus.name}"):
            for counts, texts, probability in zip(
                sides, zip(*pairs, strict=True), keep, strict=True
            ):
                counts.add([text for text in texts if drawn.random() < probability])
        if corpus.num_pairs == 0:
            faults = "; ".join(corpus.skipped.describe()) or "no rows"
            raise ValueError(f"{corpus.name} must hold a pair of sentences, got {faults}.")
    for language, counts in zip(options.languages, sides, strict=True):
        if not any(counts):
            raise ValueError(
                f"The sample must hold a sentence of each language, got none of {language}: the "
                f"corpus is too small for temperature {options.temperature}."
            )
    return sides


def count_bytes(corpora: list[Corpus]) -> tuple[int, int]:
    """The size of source and target."""
    sizes = [0, 0]
    for corpus in corpora:
        for pairs in batches(corpus, f"measuring {corpus.name}"):
            for side, texts in enumerate(zip(*pairs, strict=True)):
                sizes[side] += sum(len(text.encode()) for text in texts)
    return sizes[0], sizes[1]


def keep_probabilities(sizes: tuple[int, int], temperature: float) -> tuple[float, float]:
    """The smaller side whole, the larger thinned out: the ratio r of sizes becomes r ** (1 / T)."""
    smaller = min(sizes)
    source, target = ((smaller / max(size, 1)) ** (1 - 1 / temperature) for size in sizes)
    return source, target


def batches(corpus: Corpus, what: str) -> Iterator[list[Pair]]:
    """The corpus in lists of pairs, with a progress bar."""
    with tqdm(desc=what, unit=" pairs", unit_scale=True, delay=1) as progress:
        pairs = iter(corpus)
        while batch := list(islice(pairs, PAIRS_AT_ONCE)):
            yield batch
            progress.update(len(batch))


def report_skipped(corpora: list[Corpus]) -> None:
    """Say on stderr which rows the last reading left out."""
    for corpus in corpora:
        for fault in corpus.skipped.describe():
            typer.echo(f"{corpus.name}: left out {fault}", err=True)


def describe_command(corpora: list[Corpus], folder: Path, options: Options) -> str:
    """The command that makes the bundle, without the folders of this machine."""
    return shlex.join(
        [
            *("python", "-m", "tokenizer.train"),
            *(place for corpus in corpora for place in corpus.short_places),
            *("--output", folder.resolve().name, "--languages", ",".join(options.languages)),
            *("--vocabulary-size", str(options.vocabulary_size)),
            *("--min-frequency", str(options.min_frequency)),
            *("--temperature", str(options.temperature), "--seed", str(options.seed)),
            *("--licence", options.licence),
        ]
    )


def main(  # noqa: PLR0913 - a parameter an option
    corpus: Annotated[
        list[str],
        typer.Argument(
            help="JSON lines (.jsonl: a field for each language, or a 'translation' of them), "
            "tab-separated lines (.tsv), two aligned text files (source, then target), each plain "
            "or .gz; or a dataset: its folder, or its name on the Hub as name:configuration.",
            metavar="CORPUS...",
        ),
    ],
    output: Annotated[Path, typer.Option(help="Folder for the tokenizer.")],
    languages: Annotated[str, typer.Option(help="Source and target language.")] = "en,de",
    vocabulary_size: Annotated[
        int, typer.Option(help="Entries, rounded up to a multiple of 8. Paper: 37000, fr 32000.")
    ] = Options.vocabulary_size,
    min_frequency: Annotated[
        int, typer.Option(help="Merge only what occurs together at least so often.")
    ] = Options.min_frequency,
    temperature: Annotated[
        float,
        typer.Option(
            help="Thin out the larger language: if it is r times the smaller, r ** (1 / T) remain."
        ),
    ] = Options.temperature,
    seed: Annotated[int, typer.Option(help="Of the sampling by --temperature.")] = Options.seed,
    licence: Annotated[
        str, typer.Option(help="Licence and origin of the corpus, for the README.")
    ] = Options.licence,
    force: Annotated[bool, typer.Option("--force", help="Replace the bundle in --output.")] = False,
) -> None:
    """Train a byte-level BPE tokenizer on parallel text and save it for AutoTokenizer."""
    try:
        names = tuple(name.strip() for name in languages.split(","))
        options = Options(names, vocabulary_size, min_frequency, temperature, seed, licence)
        tokenizer = make_bundle(corpus, output, options, force=force)
    except (ValueError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(1)
    size = f"{len(tokenizer):,} entries"
    if len(tokenizer) < vocabulary_size:
        size += f", fewer than {vocabulary_size:,}: nothing else occurs {min_frequency} times"
    typer.echo(f"{output}: {size}", err=True)


if __name__ == "__main__":
    typer.run(main)
