"""Lines of files or stdin in chunks, whose beginnings depend on the input alone."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

CHUNK_LINES = 2_000
CHUNK_CHARACTERS = 2**21  # ends a chunk of very long lines
STDIN = Path("-")
BYTE_ORDER_MARK = "\ufeff"  # what editors on Windows put before a text in UTF-8


@dataclass(frozen=True)
class Chunk:
    """Lines that are translated together."""

    start: int  # how many lines come before
    lines: list[str]


def count_lines(files: Sequence[Path]) -> int | None:
    """How many lines are to be translated, all in UTF-8; None if they can be read only once."""
    if not files or not all(file.is_file() for file in files):
        return None
    return sum(1 for _ in read_lines(files))


def read_lines(files: Sequence[Path]) -> Iterator[str]:
    """The lines of all files, or of stdin: they end at LF only, and one CR before it is dropped."""
    for file in files or [STDIN]:
        with ExitStack() as stack:
            is_stdin = file == STDIN
            stream = sys.stdin.buffer if is_stdin else stack.enter_context(file.open("rb"))
            yield from _decode(stream, "stdin" if is_stdin else str(file))


def _decode(stream: IO[bytes], name: str) -> Iterator[str]:
    offset = 0
    for line in stream:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name} must be UTF-8, got 0x{line[error.start]:02x} at byte "
                f"{offset + error.start} (counted from 0): save it as UTF-8, or convert it with "
                "iconv."
            ) from None
        if offset == 0:
            text = text.removeprefix(BYTE_ORDER_MARK)
        yield text.removesuffix("\n").removesuffix("\r")
        offset += len(line)


def read_chunks(lines: Iterable[str]) -> Iterator[Chunk]:
    """The same chunks at every reading."""
    start, chunk, size = 0, list[str](), 0
    for line in lines:
        chunk.append(line)
        size += len(line)
        if len(chunk) == CHUNK_LINES or size >= CHUNK_CHARACTERS:
            yield Chunk(start, chunk)
            start, chunk, size = start + len(chunk), [], 0
    if chunk:
        yield Chunk(start, chunk)
