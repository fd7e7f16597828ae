"""Translates files of lines in chunks, so that memory is bounded and an interrupted run can go on.

A chunk is translated with sentences of like length at once, and written in one piece: to resume is
to redo the first chunk that is not complete. A file beside the output says which that is, and how
the run was begun (`unfinished_output.py`).
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

from .generation_settings import generation_settings
from .line_chunks import STDIN, Chunk, read_chunks, read_lines
from .pipeline_translation import TranslationPipeline
from .steady_memory import return_freed_memory
from .unfinished_output import Unfinished, beside, describe_run, read_unfinished

Format = Literal["text", "jsonl", "tsv"]
Existing = Literal["refuse", "replace", "resume"]


@dataclass(frozen=True)
class Options:
    """How lines are translated and written; the command line explains each."""

    batch_tokens: int = 4_096
    beam: int | None = None  # the model's own number
    n_best: int = 1
    scores: bool = False
    alignment: bool = False
    format: Format = "text"

    def __post_init__(self) -> None:
        if self.format == "text" and (self.scores or self.alignment):
            raise ValueError("scores and alignment need the format jsonl or tsv, got text.")
        if self.beam is not None and self.n_best > self.beam:
            raise ValueError(f"n_best must be at most beam, got {self.n_best} and {self.beam}.")

    def for_generate(self) -> dict[str, int]:
        """What `generate` is asked for."""
        beam = {} if self.beam is None else {"num_beams": self.beam}
        return {"num_return_sequences": self.n_best, **beam}


@dataclass(frozen=True)
class Step:
    """What has been done since the last one."""

    lines: int
    tokens: int = 0  # of the translations, start and end included; 0 where they were there before


def check_readable(file: Path) -> None:
    """Refuse what is no file that we may read."""
    try:
        file.open("rb").close()
    except OSError as error:
        raise ValueError(f"FILE must be readable, got {file}: {error.strerror}.") from None


def check_paths(files: Sequence[Path], output: Path | None, existing: Existing) -> None:
    """Refuse, before anything is loaded, what cannot be read or must not be written."""
    for file in files:
        if file != STDIN:
            check_readable(file)
    if output is None:
        return
    if output.exists() and any(file.samefile(output) for file in files if file != STDIN):
        raise ValueError(f"output must be no input, got {output} for both.")
    if existing == "refuse" and output.is_file():
        raise ValueError(
            f"output must be a new file, got {output}: pass --resume to continue it, or --force to "
            "replace it."
        )
    if output.is_dir():
        raise ValueError(f"output must be a file, got the folder {output}.")
    if not output.parent.is_dir():
        raise ValueError(f"output must be a file in a folder that exists, got {output}: make it.")


def translate_files(
    translator: TranslationPipeline,
    files: Sequence[Path],
    output: Path | None,
    options: Options,
    existing: Existing = "refuse",
) -> Iterator[Step]:
    """Translate line by line to a file or stdout; a step for each chunk that is written."""
    check_paths(files, output, existing)
    check_beam(translator, options)
    if existing == "resume" and is_complete(files, output, options):
        return
    chunks = read_chunks(read_lines(files))
    if output is None or (output.exists() and not output.is_file()):  # there is nothing to resume
        with ExitStack() as stack:
            stream = stack.enter_context(output.open("wb")) if output else sys.stdout.buffer
            for chunk in chunks:
                yield write_chunk(translator, chunk, stream, options)
        return
    yield from write_file(translator, chunks, output, options, resume=existing == "resume")
    beside(output).unlink()


def write_file(
    translator: TranslationPipeline,
    chunks: Iterator[Chunk],
    output: Path,
    options: Options,
    *,
    resume: bool,
) -> Iterator[Step]:
    """Write the translations of chunks to a file, on resumption behind those that it holds."""
    run = describe_run(translator.model, translator.tokenizer, options)
    held = read_unfinished(output) if resume and output.is_file() else None
    held = held or Unfinished(run)
    held.check_run(run, output)
    num_held = skip_held(held, chunks, output)
    held.write(output)
    output.touch()
    with output.open("r+b") as file:
        file.truncate(held.num_bytes)
        file.seek(held.num_bytes)
        yield Step(num_held)
        for chunk in chunks:
            step = write_chunk(translator, chunk, file, options)
            held.add(chunk.lines)
            held.num_bytes = file.tell()
            held.write(output)
            yield step


def check_beam(translator: TranslationPipeline, options: Options) -> None:
    """Refuse more translations of a line than the beam has, which may be the model's own."""
    defaults = translator.model.generation_config
    settings = generation_settings(defaults, options.for_generate(), None)
    beam = settings.get("num_beams") or defaults.num_beams or 1
    if options.n_best > beam:
        raise ValueError(f"n_best must be at most beam, got {options.n_best} and {beam}.")


def skip_held(held: Unfinished, chunks: Iterator[Chunk], output: Path) -> int:
    """How many lines of the input the output holds; refuse another input."""
    size = output.stat().st_size if output.is_file() else 0
    if size < held.num_bytes:
        raise ValueError(
            f"{output} must hold what was written, {held.num_bytes:,} bytes, got {size:,}: start "
            "again with --force."
        )
    again, num_lines = Unfinished(held.run), 0
    for chunk in islice(chunks, held.num_chunks):
        again.add(chunk.lines)
        num_lines += len(chunk.lines)
    if again.source != held.source:
        raise ValueError(
            f"An output must be resumed with the input it was begun with, got for {output} others "
            f"among its first {num_lines:,} lines: take what it was, or start again with --force."
        )
    return num_lines


def is_complete(files: Sequence[Path], output: Path | None, options: Options) -> bool:
    """Whether an output is there as a whole; refuse a part of one that nothing is known about."""
    if output is None or not output.is_file() or beside(output).exists():
        return False
    expected = sum(1 for _ in read_lines(files)) * options.n_best
    with output.open("rb") as lines:
        num_held = sum(line.endswith(b"\n") for line in lines)
    if num_held != expected:
        raise ValueError(
            f"To be resumed, an output must be complete or have {beside(output).name} beside it, "
            f"got {num_held:,} of {expected:,} lines in {output}: start again with --force."
        )
    return True


def write_chunk(
    translator: TranslationPipeline, chunk: Chunk, stream: IO[bytes], options: Options
) -> Step:
    """Append the translations of a chunk in one piece."""
    written, num_tokens = translate_chunk(translator, chunk, options)
    return_freed_memory()
    stream.write(written)
    stream.flush()
    return Step(len(chunk.lines), num_tokens)


def translate_chunk(
    translator: TranslationPipeline, chunk: Chunk, options: Options
) -> tuple[bytes, int]:
    """What is written for a chunk, and how many tokens it has."""
    write, written, num_tokens = FORMATS[options.format], [], 0
    results = translator(
        iter(chunk.lines),
        batch_size=len(chunk.lines),
        batch_tokens=options.batch_tokens,
        return_text=True,
        return_tensors=True,
        return_scores=options.scores,
        return_alignment=options.alignment,
        **options.for_generate(),
    )
    for number, records in enumerate(results, start=chunk.start + 1):
        for record in records:
            num_tokens += len(record.pop("translation_token_ids"))
            written.append(write(number, record) + "\n")
    return "".join(written).encode(), num_tokens


def write_text(number: int, record: dict[str, Any]) -> str:
    """The text alone; a line break that the model wrote becomes a blank."""
    text: str = record["translation_text"]
    return text.replace("\n", " ")


def write_tsv(number: int, record: dict[str, Any]) -> str:
    """Text, score, alignment: of them what is asked for; the text without tabs."""
    fields = [write_text(number, record).replace("\t", " ")]
    if "score" in record:
        fields.append(repr(record["score"]))
    if "alignment" in record:
        spans = ("{}-{}:{}-{}".format(*span) for span in record["alignment"])
        fields.append(" ".join(spans))
    return "\t".join(fields)


def write_jsonl(number: int, record: dict[str, Any]) -> str:
    """The pipeline's record, and the number of its line, counted from 1."""
    return json.dumps({"line": number, **record}, ensure_ascii=False)


FORMATS: dict[str, Callable[[int, dict[str, Any]], str]] = {
    "text": write_text,
    "jsonl": write_jsonl,
    "tsv": write_tsv,
}
