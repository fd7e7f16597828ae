"""Reads a test set, translates it with each of several models, and keeps what is to be compared."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .line_chunks import read_chunks
from .parallel_text import (
    FILE_READERS,
    Row,
    UnpairedTextError,
    find_corpora,
    format_of,
    read_aligned,
    read_languages,
    read_lines,
)
from .significance import Comparison, build_metrics, check_sizes, compare_systems
from .steady_memory import return_freed_memory
from .translate import Options, Step, translate_chunk
from .translators import Precision, load_translator


@dataclass(frozen=True)
class Task:
    """What is compared, on which test set, and how; the command line explains each."""

    source: Path
    reference: Path | None
    languages: str
    models: Sequence[str]
    hypotheses: Sequence[Path]
    batch_tokens: int
    beam: int | None
    dtype: Precision
    tokenize: str
    lowercase: bool
    resamples: int
    save_translations: Path | None


@dataclass(frozen=True)
class System:
    """What is compared: a model's translations, or those that a file holds."""

    name: str
    translations: list[str]


Watch = Callable[[Iterator[Step], int, str], None]  # goes through the steps; lines in all, a name


def compare_models(task: Task, watch: Watch) -> Comparison:
    """Translate a test set with each model and compare them; whatever can be refused is, first."""
    check_one_process()
    metrics = build_metrics(task.tokenize, lowercase=task.lowercase)
    sources, references = read_test_set(task.source, task.reference, task.languages)
    files = [read_hypotheses(file, references) for file in task.hypotheses]
    check_sizes([len(references)], len(references), task.resamples)
    if task.save_translations is not None:
        prepare_folder(task.save_translations)
    models = [System(name, []) for name in task.models]
    for number, model in enumerate(models, start=1):
        steps = translate_with(model, sources, Options(task.batch_tokens, task.beam), task.dtype)
        watch(steps, len(sources), Path(model.name).name)
        if task.save_translations is not None:
            save_translations(task.save_translations, number, model)
    systems = [(system.name, system.translations) for system in [*models, *files]]
    return compare_systems(systems, references, metrics, task.resamples)


def check_one_process() -> None:
    """Refuse to do the same work several times."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            f"evaluate runs in one process, got {os.environ['WORLD_SIZE']}: translate with "
            "`vanilla-transformer translate`, which shares the work, and pass --hypotheses."
        )


def read_test_set(
    source: Path, reference: Path | None, languages: str
) -> tuple[list[str], list[str]]:
    """Sources and references; a row that holds no pair is refused, for none may be left out."""
    pairs = []
    for number, pair, fault in read_rows(source, reference, languages):
        if pair is None:
            raise ValueError(
                f"{source} must hold a pair in every row, got {fault} in row {number}."
            )
        pairs.append(pair)
    if not any(target.strip() for _, target in pairs):
        raise ValueError(f"References must have text, got none in {reference or source}.")
    sources, references = zip(*pairs, strict=True)
    return list(sources), list(references)


def read_rows(source: Path, reference: Path | None, languages: str) -> Iterator[Row]:
    """The rows of two aligned text files, plain or .gz, or of one place that holds both sides."""
    if reference is not None:
        if format_of(source) in FILE_READERS:
            raise ValueError(
                f"A .tsv or .jsonl holds its references, got {source} and {reference}: leave the "
                "second out."
            )
        return read_aligned(source, reference)
    try:
        (corpus,) = find_corpora([str(source)], read_languages(languages))
    except UnpairedTextError as error:
        raise ValueError(
            f"A test set needs a REFERENCE, or is .tsv, .jsonl or a dataset, got {source} alone."
        ) from error
    return corpus.read_rows()


def read_hypotheses(file: Path, references: Sequence[str]) -> System:
    """Translations made elsewhere, one a line, plain or .gz."""
    translations = list(read_lines(file))
    if len(translations) != len(references):
        raise ValueError(
            f"{file} must have a line for each reference, got {len(translations):,} and "
            f"{len(references):,}."
        )
    return System(str(file), translations)


def prepare_folder(folder: Path) -> None:
    """A new folder, or one with nothing in it."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"Translations are saved to a new folder, got {folder} with files in it.")


def save_translations(folder: Path, number: int, system: System) -> None:
    """Write `1-my-model.txt`, which can be passed as hypotheses."""
    file = folder / f"{number}-{Path(system.name).resolve().name}.txt"
    file.write_bytes("".join(f"{text}\n" for text in system.translations).encode())


def translate_with(
    system: System, sources: list[str], options: Options, precision: Precision
) -> Iterator[Step]:
    """Load a model and append its translations; a step for each chunk."""
    translator = load_translator(system.name, precision)
    for chunk in read_chunks(sources):
        written, num_tokens = translate_chunk(translator, chunk, options)
        system.translations.extend(written.decode().split("\n")[:-1])
        return_freed_memory()
        yield Step(len(chunk.lines), num_tokens)
