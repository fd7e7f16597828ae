"""How fast do we translate? Ours, MarianMT, CTranslate2 and the pipeline of old, in turns.

`python benchmarks/decoding.py` prints all tables and puts them, with a chart, into RESULTS.md.
With `--old-environment PYTHON` the pipeline of transformers 4.57 takes part; with `--quick` it
takes less than a minute and writes nothing.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tqdm import tqdm

from benchmarks.command_line import new_parser, parse_quickly, refuse_impossible
from benchmarks.comparison import DTYPES, enough_after
from benchmarks.contestants import SIZES
from benchmarks.decoding_chart import draw_chart
from benchmarks.decoding_comparison import CTRANSLATE2, Cell, Contest, DecodingComparison
from benchmarks.decoding_folder import save_contestants
from benchmarks.decoding_report import Findings, speed_line, write_report
from benchmarks.decoding_tasks import TASKS, load_source_lengths
from benchmarks.engine_process import EngineProcess
from benchmarks.machine import clock_for, cores, describe_machine, measure_gemm_peaks, run_alone
from benchmarks.results import publish, shown_command

SCRIPT = "decoding.py"
FOLDER = Path(__file__).resolve().parent
BATCHES, BEAMS = [1, 32, 128], [1, 4]
QUICK = {"sizes": ["tiny"], "batches": [1, 32], "threads": [1], "rounds": 1, "output": None}


@dataclass(frozen=True)
class Plan:
    """What a run measures, in the words of the command line."""

    sizes: list[str]
    tasks: list[str]
    batches: list[int]
    beams: list[int]
    threads: list[int]
    rounds: int | None
    seconds: float
    old_environment: str | None
    lengths: list[int]

    def engines(self) -> Iterator[tuple[str, str]]:
        """Name the Python and the script of every engine."""
        yield sys.executable, "engine_torch.py"
        yield sys.executable, "engine_pipeline.py"
        yield sys.executable, CTRANSLATE2
        if self.old_environment is not None:
            yield self.old_environment, "engine_old_pipeline.py"


def compare(plan: Plan, size: str, threads: int, folder: Path) -> Iterator[DecodingComparison]:
    """Measure one size with so many threads, with engines that live as long."""
    with ExitStack() as stack:
        engines = [
            stack.enter_context(EngineProcess(python, script, folder, threads))
            for python, script in plan.engines()
        ]
        for task, batch, beams in product(plan.tasks, plan.batches, plan.beams):
            cell = Cell(size, task, batch, beams, threads)
            yield Contest(engines, cell, plan.lengths).run(enough_after(plan.rounds, plan.seconds))


def measure(plan: Plan) -> list[DecodingComparison]:
    """Measure everything, and tell on stderr as it comes."""
    runs = list(product(plan.threads, plan.sizes))
    cells = len(plan.tasks) * len(plan.batches) * len(plan.beams)
    comparisons = []
    with TemporaryDirectory() as root, tqdm(total=len(runs) * cells) as progress:
        for size in plan.sizes:
            run_alone(save_contestants, SIZES[size], Path(root) / size)
        for threads, size in runs:
            for one in compare(plan, size, threads, Path(root) / size):
                comparisons.append(one)
                progress.write(speed_line(one), file=sys.stderr)
                progress.update()
    return comparisons


def measure_peaks(threads: int) -> dict[str, float]:
    """Return the FLOP/s of the best GEMM of each precision; meant for a process of its own."""
    torch.set_num_threads(threads)
    clock = clock_for(threads)
    return {name: max(measure_gemm_peaks(dtype, clock).values()) for name, dtype in DTYPES.items()}


def build_parser() -> argparse.ArgumentParser:
    """Describe the options; `--quick` changes defaults only."""
    parser = new_parser("benchmarks/decoding.py", __doc__)
    add = parser.add_argument
    add("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    add("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    add("--batches", nargs="+", type=int, choices=BATCHES, default=BATCHES)
    add("--beams", nargs="+", type=int, choices=BEAMS, default=BEAMS)
    add("--threads", nargs="+", type=int, default=[1, 2][: cores()])
    add("--rounds", type=int, help="of each comparison, instead of 3 or 7")
    add("--seconds", type=float, default=10.0, help="if 3 rounds take so long they are enough")
    add("--old-environment", metavar="PYTHON", help="a python with transformers 4.57 and torch")
    add("--quick", action="store_true", help="tiny, 1 thread, 1 round; writes nothing")
    add("--data", type=Path, default=FOLDER.parent / "../shared/data", help="parallel text")
    add("--output", type=Path, default=FOLDER, help="folder of RESULTS.md and decoding.png")
    return parser


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Read the command line and refuse what this machine cannot do."""
    parser = build_parser()
    options = parse_quickly(parser, QUICK, arguments)
    refuse_impossible(parser, options.threads, options.rounds)
    return options


def find(options: argparse.Namespace, command: str) -> Findings:
    """Measure the machine, then everybody."""
    lengths, origin = load_source_lengths(options.data)
    plan = Plan(
        sizes=options.sizes,
        tasks=options.tasks,
        batches=options.batches,
        beams=options.beams,
        threads=options.threads,
        rounds=options.rounds,
        seconds=options.seconds,
        old_environment=options.old_environment,
        lengths=lengths,
    )
    peaks = {threads: run_alone(measure_peaks, threads) for threads in plan.threads}
    return Findings(describe_machine(), command, origin, peaks, measure(plan))


def main(arguments: list[str]) -> None:
    """Measure, print, and write what was found."""
    options = parse_options(arguments)
    findings = find(options, shown_command(SCRIPT, arguments))
    report = write_report(findings)
    draw = partial(draw_chart, findings.comparisons)
    publish(report, SCRIPT, options.output, "Decoding speed", draw)


if __name__ == "__main__":
    main(sys.argv[1:])
