"""How do the layers of the paper's Table 1 grow? Time, memory, chains and paths, measured.

`python benchmarks/layers.py` prints all tables and puts them, with a chart, into RESULTS.md; with
`--quick` it takes a few seconds and writes nothing.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from tqdm import tqdm

from benchmarks.command_line import new_parser, parse_quickly
from benchmarks.layer_kinds import KINDS
from benchmarks.layer_measures import Measure, measure_memory, time_layers
from benchmarks.layer_paths import DILATED, path_length, sequential_operations
from benchmarks.layers_chart import draw_chart
from benchmarks.layers_report import Findings, write_report
from benchmarks.machine import describe_machine
from benchmarks.results import publish, shown_command

SCRIPT = "layers.py"
FOLDER = Path(__file__).resolve().parent
LENGTHS = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
SHORTEST_FOR_MEMORY = 512  # less is lost between the pages of a process
COUNTED = [256, 512, 1024]
PATH_WINDOW = 4
QUICK = {
    "lengths": [8, 16, 32],
    "widths": [16],
    "memory_widths": [],
    "counted": [8, 16],
    "rounds": 1,
    "output": None,
}


def build_parser() -> argparse.ArgumentParser:
    """Describe the options; `--quick` changes defaults only."""
    parser = new_parser(f"benchmarks/{SCRIPT}", __doc__)
    add = parser.add_argument
    add("--lengths", nargs="+", type=int, default=LENGTHS, help="of sentences, at least 3, rising")
    add("--widths", nargs="+", type=int, default=[128, 256, 512])
    add("--memory-widths", nargs="*", type=int, default=[128, 256, 512])
    add("--counted", nargs="+", type=int, default=COUNTED, help="lengths to count chains at")
    add("--rounds", type=int, default=5)
    add("--quick", action="store_true", help="a few short sentences; writes nothing")
    add("--output", type=Path, default=FOLDER, help="folder of RESULTS.md and layers.png")
    return parser


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = build_parser()
    options = parse_quickly(parser, QUICK, arguments)
    lengths = options.lengths
    if len(lengths) < 3 or lengths != sorted(set(lengths)):
        parser.error(f"--lengths must be at least 3, in rising order, got {lengths}")
    if options.memory_widths and len(lengths_for_memory(lengths)) < 3:
        parser.error(
            f"memory needs at least 3 --lengths from {SHORTEST_FOR_MEMORY} on, got {lengths}: "
            "add longer ones, or leave memory out by --memory-widths without a width"
        )
    return options


def lengths_for_memory(lengths: list[int]) -> list[int]:
    """Those of which memory can be told."""
    return [length for length in lengths if length >= SHORTEST_FOR_MEMORY]


def find(options: argparse.Namespace, command: str) -> Findings:
    """Count first, then measure."""
    window, counted = PATH_WINDOW, options.counted
    return Findings(
        machine=describe_machine(),
        command=command,
        rounds=options.rounds,
        chains={kind: [(n, sequential_operations(kind, n)) for n in counted] for kind in KINDS},
        paths={
            kind: [(n, path_length(kind, n, window)) for n in counted] for kind in (*KINDS, DILATED)
        },
        path_window=window,
        times=measure_times(options),
        memory=measure_peaks(options),
    )


def measure_times(options: argparse.Namespace) -> list[Measure]:
    """Time all kinds at every width and length."""
    return [
        one
        for width in tqdm(options.widths, desc="time")
        for one in time_layers(KINDS, width, options.lengths, options.rounds)
    ]


def measure_peaks(options: argparse.Namespace) -> list[Measure]:
    """Measure the memory of all kinds at the longer lengths."""
    lengths = lengths_for_memory(options.lengths)
    return [
        one
        for width in tqdm(options.memory_widths, desc="memory")
        for one in measure_memory(KINDS, width, lengths, options.rounds)
    ]


def main(arguments: list[str]) -> None:
    """Measure, print, and write what was found."""
    options = parse_options(arguments)
    findings = find(options, shown_command(SCRIPT, arguments))
    report = write_report(findings)
    publish(report, SCRIPT, options.output, "Table 1, measured", partial(draw_chart, findings))


if __name__ == "__main__":
    main(sys.argv[1:])
