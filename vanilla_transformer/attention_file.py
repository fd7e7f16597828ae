"""Attention maps become a file: in which format, with which view, and never by halves."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .file_replacement import replace_file

if TYPE_CHECKING:
    from .attention_maps import AttentionMaps

FORMATS = ("html", "png", "svg")
STDOUT = Path("-")


@dataclass(frozen=True)
class Wish:
    """What a file is to show; refused at once where there is no such thing."""

    format: str
    choice: dict[str, Any]  # view, kind, layer, head

    @classmethod
    def of(cls, format: str | None, output: Path | None, **choice: Any) -> "Wish":
        """A wish whose format the file's name may tell."""
        ending = "" if output is None else output.suffix.lower().removeprefix(".")
        if format and ending in FORMATS and format != ending:
            raise ValueError(
                f"format must be what the ending of output says, got {format!r} and "
                f"{str(output)!r}: leave --format out, or say --output with .{format} or another "
                "ending that is no format."
            )
        format = format or ending or "html"
        if format not in FORMATS:
            raise ValueError(
                f"format must be one of {', '.join(FORMATS)}, got {format!r}: say which by "
                "--format, or by the ending of --output."
            )
        if format == "html":
            from .attention_page import check_view

            check_view(choice.get("view"))
        else:
            from .attention_figures import choose_view

            choose_view(**choice)
        return cls(format, choice)

    def fulfil(self, maps: "AttentionMaps") -> bytes:
        """The content of the file."""
        if self.format == "html":
            return maps.page(**self.choice).encode()
        return maps.draw(**self.choice).to_bytes(self.format)


def check_output(output: Path, *, force: bool) -> None:
    """Refuse, before anything is loaded, what must not or cannot be written."""
    if output == STDOUT:
        return
    if output.is_file() and not force:
        raise ValueError(f"output must be a new file, got {output}: pass --force to replace it.")
    if output.is_dir() or not output.parent.is_dir():
        raise ValueError(f"output must be a file in a folder that exists, got {output}.")


def write_output(output: Path, content: bytes, *, force: bool) -> None:
    """Write a file in one piece: who reads finds nothing, what was there before, or all of it."""
    if output == STDOUT:
        sys.stdout.buffer.write(content)
        return
    if output.exists() and not output.is_file():  # a pipe or device has no pieces
        output.write_bytes(content)
        return
    check_output(output, force=force)
    replace_file(output, content)
