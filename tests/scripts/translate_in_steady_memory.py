"""Translate a file with the command, and write how much memory is in use after each chunk."""

import sys
from pathlib import Path

from vanilla_transformer import cli, line_chunks


def resident_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def report(steps, total, **hidden):
    for step in steps:
        if step.lines:
            sys.stdout.write(f"{resident_bytes()}\n")


line_chunks.CHUNK_LINES = 500
cli.report = report
cli.app(sys.argv[1:])
