"""How fast, and in how much memory, does the model train? Ours, MarianMT and torch.nn in turns.

`python benchmarks/training.py` prints all tables and puts them, with a chart, into RESULTS.md.
With `--trainer` it also measures inside `transformers.Trainer`; with `--quick` it takes less than
a minute and writes nothing.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import torch
import transformers
from tqdm import tqdm

from benchmarks.agreement import check_agreement
from benchmarks.batches import BATCH_KINDS, Pair, load_lengths, make_batches, real_share
from benchmarks.chart import draw_chart
from benchmarks.command_line import new_parser, parse_quickly, refuse_impossible
from benchmarks.comparison import DTYPES, Comparison, Setting, Trainee, enough_after, time_rounds
from benchmarks.contestants import CONTESTANTS, OURS, REFERENCE, SIZES
from benchmarks.machine import clock_for, cores, describe_machine, measure_gemm_peaks, run_alone
from benchmarks.memory import MemoryPeaks, compare_memory
from benchmarks.report import Findings, write_report
from benchmarks.results import publish, shown_command
from benchmarks.trainer_step import time_trainer_rounds

SCRIPT = "training.py"
FOLDER = Path(__file__).resolve().parent
OTHERS = [name for name in CONTESTANTS if name not in (OURS, REFERENCE)]
QUICK = {
    "sizes": ["tiny", "small"],
    "batches": ["random"],
    "threads": [1],
    "rounds": 2,
    "memory": False,
    "output": None,
}


@dataclass(frozen=True)
class Plan:
    """What a run measures, in the words of the command line."""

    sizes: list[str]
    dtypes: list[str]
    batches: list[str]
    threads: list[int]
    contestants: list[str]
    rounds: int | None
    seconds: float
    trainer: bool
    lengths: list[Pair]

    def make_batches(self, kind: str) -> list[list[Pair]]:
        return make_batches(kind, self.lengths)

    @property
    def warm_up(self) -> list[Pair]:
        return self.make_batches("random")[-1]


@dataclass(frozen=True)
class Measured:
    """What one number of threads found out: GEMM peaks of each precision, and comparisons."""

    gemm_peaks: dict[str, dict[str, float]]
    comparisons: list[Comparison]


def announced(batches: list[list[Pair]], progress: tqdm, setting: Setting) -> Iterator[list[Pair]]:
    """Hand out the batches and tell on stderr which round it is."""
    for number, pairs in enumerate(batches, start=1):
        progress.set_description(f"{setting.size} {setting.dtype} {setting.batches} {number}")
        yield pairs


def compare_plain(
    plan: Plan, size: str, dtype: str, threads: int, gemm_peak: float, progress: tqdm
) -> list[Comparison]:
    """Measure one size and precision in our own loop, after one step to warm up."""
    trainees = {name: Trainee(name, size, dtype) for name in plan.contestants}
    vocab_size, clock = SIZES[size].vocab_size, clock_for(threads)
    time_rounds(trainees, [plan.warm_up], vocab_size, clock, enough_after(1, 0.0))
    comparisons = []
    for kind in plan.batches:
        setting = Setting(size, dtype, kind, threads)
        rounds = time_rounds(
            trainees,
            announced(plan.make_batches(kind), progress, setting),
            vocab_size,
            clock,
            enough_after(plan.rounds, plan.seconds),
        )
        comparisons.append(Comparison(setting, rounds, gemm_peak))
        progress.update()
    return comparisons


def compare_in_trainer(
    plan: Plan, size: str, dtype: str, threads: int, gemm_peak: float, progress: tqdm
) -> list[Comparison]:
    """Measure one size and precision inside Trainer."""
    comparisons = []
    for kind in plan.batches:
        setting = Setting(size, dtype, kind, threads, loop="Trainer")
        progress.set_description(f"{size} {dtype} {kind} in Trainer")
        rounds = time_trainer_rounds(
            plan.contestants,
            SIZES[size],
            [plan.warm_up, *plan.make_batches(kind)],
            dtype == "bf16",
            clock_for(threads),
        )
        comparisons.append(Comparison(setting, rounds, gemm_peak))
        progress.update()
    return comparisons


def measure(plan: Plan, threads: int) -> Measured:
    """Measure everything with so many threads; meant for a process of its own."""
    torch.set_num_threads(threads)
    transformers.logging.set_verbosity_error()
    clock = clock_for(threads)
    gemm_peaks = {dtype: measure_gemm_peaks(DTYPES[dtype], clock) for dtype in plan.dtypes}
    loops = [compare_plain]
    if plan.trainer and threads == min(plan.threads):
        loops.append(compare_in_trainer)
    cells = list(product(plan.sizes, plan.dtypes, loops))
    comparisons = []
    with tqdm(total=len(cells) * len(plan.batches), postfix=f"threads: {threads}") as progress:
        for size, dtype, compare in cells:
            best = max(gemm_peaks[dtype].values())
            comparisons += compare(plan, size, dtype, threads, best, progress)
    return Measured(gemm_peaks, comparisons)


def measure_memory(plan: Plan) -> list[MemoryPeaks]:
    """Measure the largest size of the plan, the one whose memory matters."""
    cells = list(product(plan.dtypes, plan.batches))
    size = max(plan.sizes, key=lambda name: SIZES[name].d_model)
    return [
        compare_memory(plan.contestants, size, dtype, kind, plan.make_batches(kind), cores())
        for dtype, kind in tqdm(cells, desc=f"memory, {size}")
    ]


def check_sizes(plan: Plan) -> float:
    """Check that ours equals the reference at every size; return the largest difference."""
    pairs = plan.make_batches("random")[0]
    sizes = tqdm(plan.sizes, desc="equal to the padded reference")
    return max(check_agreement(SIZES[size], pairs) for size in sizes)


def build_parser() -> argparse.ArgumentParser:
    """Describe the options; `--quick` changes defaults only."""
    parser = new_parser("benchmarks/training.py", __doc__)
    add = parser.add_argument
    add("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    add("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    add("--batches", nargs="+", choices=BATCH_KINDS, default=list(BATCH_KINDS))
    add("--threads", nargs="+", type=int, default=[1, 2][: cores()])
    add("--others", nargs="*", choices=OTHERS, default=["torch.nn"], help=f"besides {REFERENCE}")
    add("--rounds", type=int, help="of each comparison, instead of 3 or 7")
    add(
        "--seconds",
        type=float,
        default=20.0,
        help="if 3 rounds take so long they are enough, else 7",
    )
    add("--trainer", action="store_true", help="inside Trainer too, at the fewest threads")
    add("--memory", action=argparse.BooleanOptionalAction, default=True)
    add("--quick", action="store_true", help="random batches, 1 thread, 2 rounds; writes nothing")
    add("--data", type=Path, default=FOLDER.parent / "../shared/data", help="parallel text")
    add("--output", type=Path, default=FOLDER, help="folder of RESULTS.md and training.png")
    return parser


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Read the command line and refuse what this machine cannot do."""
    parser = build_parser()
    options = parse_quickly(parser, QUICK, arguments)
    refuse_impossible(parser, options.threads, options.rounds)
    return options


def find(options: argparse.Namespace, command: str) -> Findings:
    """Check first, then measure: one process for each number of threads."""
    lengths, origin = load_lengths(options.data)
    plan = Plan(
        sizes=options.sizes,
        dtypes=options.dtypes,
        batches=options.batches,
        threads=options.threads,
        contestants=[OURS, REFERENCE, *options.others],
        rounds=options.rounds,
        seconds=options.seconds,
        trainer=options.trainer,
        lengths=lengths,
    )
    difference = run_alone(check_sizes, plan)
    measured = {threads: run_alone(measure, plan, threads) for threads in plan.threads}
    return Findings(
        machine=describe_machine(),
        command=command,
        lengths=origin,
        real_shares={kind: real_share(plan.make_batches(kind)) for kind in BATCH_KINDS},
        difference=difference,
        gemm_peaks={threads: found.gemm_peaks for threads, found in measured.items()},
        comparisons=[one for found in measured.values() for one in found.comparisons],
        memory=measure_memory(plan) if options.memory else [],
    )


def main(arguments: list[str]) -> None:
    """Measure, print, and write what was found."""
    options = parse_options(arguments)
    findings = find(options, shown_command(SCRIPT, arguments))
    report = write_report(findings)
    draw = partial(draw_chart, findings.plain)
    publish(report, SCRIPT, options.output, "Training speed", draw)


if __name__ == "__main__":
    main(sys.argv[1:])
