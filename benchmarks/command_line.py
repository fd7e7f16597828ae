"""What the command lines of benchmarks share."""

import argparse
from typing import Any

from benchmarks.machine import cores


def new_parser(program: str, explanation: str | None) -> argparse.ArgumentParser:
    """A command line that explains itself by the text at the head of its file."""
    return argparse.ArgumentParser(
        prog=program,
        description=explanation,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def parse_quickly(
    parser: argparse.ArgumentParser, quick: dict[str, Any], arguments: list[str]
) -> argparse.Namespace:
    """Read the options; with `--quick` the defaults are those of a small run."""
    if "--quick" in arguments:
        parser.set_defaults(**quick)
    return parser.parse_args(arguments)


def refuse_impossible(
    parser: argparse.ArgumentParser, threads: list[int], rounds: int | None
) -> None:
    """Refuse threads that this machine has not, and rounds that are none."""
    if not all(1 <= number <= cores() for number in threads):
        parser.error(f"--threads must be from 1 to {cores()}, the cores here: {threads}")
    if rounds is not None and rounds < 1:
        parser.error(f"--rounds must be at least 1, got {rounds}: leave it out to adapt")
