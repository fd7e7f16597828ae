"""A file of sentences becomes a file of translations: n lines in, n lines out, within limits."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from vanilla_transformer.line_chunks import read_lines
from vanilla_transformer.pipeline_translation import TranslationPipeline
from vanilla_transformer.sentence_splits import Piece, split_at_length, split_lines, split_sentences
from vanilla_transformer.translate import Options

MOST_BYTES = 250_000
MOST_LINES = 2_000
OTHER_WAY = "split it, or run `vanilla-transformer translate` on your machine, which has no limit."
CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")  # there is none in a text; UTF-16 is full of them
CHARACTERS_AT_ONCE = 1_500  # between two looks at the progress bar: some 25 lines, or seconds


@dataclass(frozen=True)
class Progress:
    """How far it is; at the end there is a file to download, as long as nobody asks for more."""

    done: int  # lines
    total: int
    share: float  # of all characters: a single line may be the whole file
    output: Path | None = None


def translate_file(translator: TranslationPipeline, file: Path) -> Iterator[Progress]:
    """Translate a file step by step; whoever stops asking stops the work."""
    lines = read_file(file)
    total, done, seen = sum(len(line) + 1 for line in lines), 0, 0
    with TemporaryDirectory() as folder:
        output = Path(folder) / f"{file.stem}.de.txt"
        with output.open("w", encoding="utf-8", newline="") as stream:
            for step in split_steps(split_file(lines)):
                yield Progress(done, len(lines), seen / total)
                stream.write(translate_step(translator, step))
                done += sum(not piece.text for piece in step)
                seen += sum(map(size_of, step))
        yield Progress(done, len(lines), 1.0, output)


def split_file(lines: list[str]) -> Iterator[Piece]:
    """The sentences of all lines, and for the end of each line an empty one."""
    for line in lines:
        passage = split_lines(line)
        passage.refine(split_sentences)
        passage.refine(lambda piece: split_at_length(piece, CHARACTERS_AT_ONCE))
        yield from passage.pieces
        yield Piece(passage.rest + "\n", "")


def split_steps(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """As many pieces at once as one waits for without a look at the progress bar."""
    step, size = list[Piece](), 0
    for piece in pieces:
        step.append(piece)
        size += size_of(piece)
        if size >= CHARACTERS_AT_ONCE:
            yield step
            step, size = [], 0
    if step:
        yield step


def size_of(piece: Piece) -> int:
    """How many characters of the file it stands for."""
    return len(piece.gap) + len(piece.text)


def translate_step(translator: TranslationPipeline, step: list[Piece]) -> str:
    """What is written for these pieces; each line of the file stays one."""
    records = translator(
        [piece.text for piece in step], batch_size=len(step), batch_tokens=Options().batch_tokens
    )
    return "".join(
        piece.gap + record["translation_text"].replace("\n", " ")
        for piece, record in zip(step, records, strict=True)
    )


def read_file(file: Path) -> list[str]:
    """The lines of a file, which must be a text in UTF-8 and not too much."""
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(
            f"{file.name} must have at most {MOST_BYTES:,} bytes, got {size:,}: {OTHER_WAY}"
        )
    try:
        lines = list(read_lines([file]))
    except ValueError as error:
        raise ValueError(str(error).replace(str(file), file.name)) from error
    refuse_controls(lines, file.name)
    if not 1 <= len(lines) <= MOST_LINES:
        raise ValueError(
            f"{file.name} must have 1 to {MOST_LINES:,} lines, got {len(lines):,}: {OTHER_WAY}"
        )
    return lines


def refuse_controls(lines: list[str], name: str) -> None:
    """Refuse what UTF-8 allows, and no text has."""
    for number, line in enumerate(lines, start=1):
        if control := CONTROL.search(line):
            raise ValueError(
                f"{name} must be a text in UTF-8, got the control character "
                f"U+{ord(control[0]):04X} in line {number:,}: save it as UTF-8, or as plain text, "
                "where it was written."
            )
