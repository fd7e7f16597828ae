"""A file of sentences becomes a file of translations: n lines in, n lines out, within limits."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from vanilla_transformer.line_chunks import Chunk, read_lines
from vanilla_transformer.pipeline_translation import TranslationPipeline
from vanilla_transformer.translate import Options, translate_chunk

MOST_BYTES = 250_000
MOST_LINES = 2_000
OTHER_WAY = "split it, or run `vanilla-transformer translate` on your machine, which has no limit."
LINES_AT_ONCE = 25  # between two looks at the progress bar


@dataclass(frozen=True)
class Progress:
    """How far it is; at the end there is a file to download, as long as nobody asks for more."""

    done: int
    total: int
    output: Path | None = None


def translate_file(translator: TranslationPipeline, file: Path) -> Iterator[Progress]:
    """Translate a file step by step; whoever stops asking stops the work."""
    lines = read_file(file)
    with TemporaryDirectory() as folder:
        output = Path(folder) / f"{file.stem}.de.txt"
        with output.open("wb") as stream:
            for start in range(0, len(lines), LINES_AT_ONCE):
                yield Progress(start, len(lines))
                chunk = Chunk(start, lines[start : start + LINES_AT_ONCE])
                stream.write(translate_chunk(translator, chunk, Options())[0])
        yield Progress(len(lines), len(lines), output)


def read_file(file: Path) -> list[str]:
    """The lines of a file, which must be UTF-8 and not too much."""
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(
            f"{file.name} must have at most {MOST_BYTES:,} bytes, got {size:,}: {OTHER_WAY}"
        )
    try:
        lines = list(read_lines([file]))
    except ValueError as error:
        raise ValueError(str(error).replace(str(file), file.name)) from error
    if not 1 <= len(lines) <= MOST_LINES:
        raise ValueError(
            f"{file.name} must have 1 to {MOST_LINES:,} lines, got {len(lines):,}: {OTHER_WAY}"
        )
    return lines
