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


def refuse_impossible(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse threads that this machine has not, and rounds that are none."""
    numbers = [options.threads] if isinstance(options.threads, int) else options.threads
    if not all(1 <= threads <= cores() for threads in numbers):
        parser.error(f"--threads must be from 1 to {cores()}, the cores here: {options.threads}")
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}: leave it out to adapt")
