"""Several processes take turns at the chunks, each with a file of its own; the first joins them."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from .line_chunks import STDIN, read_chunks, read_lines
from .pipeline_translation import TranslationPipeline
from .translate import (
    Existing,
    Options,
    Step,
    check_beam,
    check_paths,
    is_complete,
    write_file,
)
from .unfinished_output import beside

LONGEST_WAIT = timedelta(days=30)  # for the slowest process


def join_processes() -> Any:
    """What `accelerate launch` started together with this process; None if it runs alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return None
    try:
        from accelerate import PartialState
    except ImportError:
        raise ValueError(
            "Several processes need accelerate: pip install 'vanilla-transformer[train]'."
        ) from None
    return PartialState(cpu=not torch.accelerator.is_available(), timeout=LONGEST_WAIT)


def translate_in_parallel(
    processes: Any,
    translator: TranslationPipeline,
    files: Sequence[Path],
    output: Path | None,
    options: Options,
    existing: Existing = "refuse",
) -> Iterator[Step]:
    """Translate every n-th chunk; the output is there, as a whole, when all n have ended."""
    output = shared_output(files, output)
    rank, parts = processes.process_index, name_parts(output, processes.num_processes)
    check_paths(files, output, existing)
    check_beam(translator, options)
    if existing == "refuse" and parts[rank].exists():
        raise ValueError(
            f"output must have no parts of an earlier run, got {parts[rank]}: pass --resume to "
            "continue them, or --force to replace them."
        )
    if existing == "resume" and beside(output).exists():
        raise ValueError(
            f"An output that one process began must be resumed by one process, got {output}."
        )
    is_done = existing == "resume" and is_complete(files, output, options)
    processes.wait_for_everyone()  # all have looked before any writes
    if not is_done:
        chunks = islice(read_chunks(read_lines(files)), rank, None, len(parts))
        yield from write_file(translator, chunks, parts[rank], options, resume=existing == "resume")
    processes.wait_for_everyone()
    if rank == 0:
        if not is_done:
            join_parts(files, parts, output, options)
        for part in parts:
            part.unlink(missing_ok=True)
            beside(part).unlink(missing_ok=True)
    processes.wait_for_everyone()


def shared_output(files: Sequence[Path], output: Path | None) -> Path:
    """The output, where several processes can share the work: each reads the files for itself."""
    if output is None:
        raise ValueError("Several processes need --output, got stdout.")
    for file in files or [STDIN]:
        if not file.is_file():
            raise ValueError(f"Several processes need files that can be read again, got {file}.")
    return output


def name_parts(output: Path, num_parts: int) -> list[Path]:
    """The files of the processes: out.txt -> out.txt.part-1-of-2, out.txt.part-2-of-2."""
    return [
        output.with_name(f"{output.name}.part-{number}-of-{num_parts}")
        for number in range(1, num_parts + 1)
    ]


def join_parts(
    files: Sequence[Path], parts: Sequence[Path], output: Path, options: Options
) -> None:
    """Write the chunks of all parts in order; the output appears at once."""
    joined = output.with_name(f"{output.name}.joined")
    with ExitStack() as stack:
        sources = [stack.enter_context(part.open("rb")) for part in parts]
        target = stack.enter_context(joined.open("wb"))
        for index, chunk in enumerate(read_chunks(read_lines(files))):
            lines = islice(sources[index % len(parts)], len(chunk.lines) * options.n_best)
            target.writelines(lines)
    joined.replace(output)
