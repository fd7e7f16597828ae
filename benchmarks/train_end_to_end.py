"""How fast does a whole training loop train? Ours, Seq2SeqTrainer, JoeyNMT and eole, in turns.

Loading, collating, optimizer and logging included, on Multi30k, one thread by CPU time: `python
benchmarks/train_end_to_end.py` prints the tables and puts them into RESULTS.md. JoeyNMT and eole
take part where they are installed, or with `--joeynmt-python PYTHON` and `--eole-python PYTHON`;
with `--quick` it takes two minutes and writes nothing.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from tqdm import tqdm

from benchmarks.batches import Pair
from benchmarks.command_line import new_parser, parse_quickly
from benchmarks.contestants import SIZES
from benchmarks.decoding import measure_peaks
from benchmarks.end_to_end_loops import LOOPS, OURS, python_of
from benchmarks.end_to_end_report import Contest, Findings, turn_line, write_report
from benchmarks.end_to_end_task import (
    VOCABULARY,
    Prepared,
    missing_files,
    read_pairs,
    request,
    task_for,
)
from benchmarks.machine import describe_machine, run_alone
from benchmarks.results import publish, shown_command
from benchmarks.script_process import ScriptProcess
from benchmarks.turns import LoopProcess, Turn

SCRIPT = "train_end_to_end.py"
FOLDER = Path(__file__).resolve().parent
PRECISIONS = ("fp32", "bf16")
QUICK = {
    "sizes": ["tiny"],
    "loops": [OURS, "Trainer, eager"],
    "rounds": 1,
    "tokens": 10_000,
    "output": None,
}


@dataclass(frozen=True)
class Plan:
    """What a run measures, in the words of the command line."""

    sizes: list[str]
    precisions: list[str]
    pythons: dict[str, str]  # of every loop that takes part
    rounds: int
    tokens: int
    warm_up: int
    folder: Path
    prepared: Prepared


def compete(plan: Plan, size: str, precision: str) -> Iterator[tuple[str, Turn]]:
    """Let all train in turns, in processes that live as long; what warms them up is left out."""
    task = task_for(plan.prepared, SIZES[size])
    with ExitStack() as stack:
        processes: dict[str, LoopProcess] = {}
        for name, python in plan.pythons.items():
            settings = LOOPS[name].settings.get(precision)
            if settings is not None:
                loop, arguments = LOOPS[name], request(plan.folder, task, settings)
                log = plan.folder / f"{len(processes)}.log"
                process = LoopProcess(
                    python, loop.script, *arguments, log=log, environment=loop.environment
                )
                processes[name] = stack.enter_context(process)
        for process in processes.values():
            process.take_turn(plan.warm_up)
        for _ in range(plan.rounds):
            for name, process in processes.items():
                yield name, process.take_turn(plan.tokens)


def measure(plan: Plan, flops: dict[str, float], peaks: dict[str, float]) -> list[Contest]:
    """Measure every size and precision, and tell on stderr as it comes."""
    contests = []
    for size, precision in tqdm(list(product(plan.sizes, plan.precisions))):
        turns: dict[str, list[Turn]] = {}
        for name, turn in compete(plan, size, precision):
            turns.setdefault(name, []).append(turn)
            tqdm.write(turn_line(size, precision, name, turn), file=sys.stderr)
        contests.append(Contest(size, precision, turns, flops[size], peaks[precision]))
    return contests


def flops_a_target_token(folder: Path, size: str, vocab_size: int) -> float:
    """Say how much arithmetic the task itself asks for, padding left out."""
    sources, targets = read_pairs(folder)
    pairs = [Pair(len(one), len(other)) for one, other in zip(sources, targets, strict=True)]
    flops = replace(SIZES[size], vocab_size=vocab_size).training_flops(pairs)
    return flops / sum(pair.target for pair in pairs)


def build_parser() -> argparse.ArgumentParser:
    """Describe the options; `--quick` changes defaults only."""
    parser = new_parser(f"benchmarks/{SCRIPT}", __doc__)
    add = parser.add_argument
    add("--sizes", nargs="+", choices=SIZES, default=["tiny", "small"])
    add("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    add("--loops", nargs="+", choices=LOOPS, default=list(LOOPS))
    add("--rounds", type=int, default=4, help="turns of every loop")
    add("--tokens", type=int, default=30_000, help="target tokens of a turn")
    add("--warm-up", type=int, default=8_000, help="target tokens that are not timed")
    add("--vocabulary", type=int, default=VOCABULARY, help="of the tokenizer that is learned")
    add("--joeynmt-python", metavar="PYTHON", help="a python with joeynmt and torch")
    add("--eole-python", metavar="PYTHON", help="a python with eole and torch")
    add("--quick", action="store_true", help="tiny, two loops, 1 round; writes nothing")
    add("--data", type=Path, default=FOLDER.parent / "../shared/data", help="has multi30k/tok")
    add("--output", type=Path, default=FOLDER, help="folder of RESULTS.md")
    return parser


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Read the command line and refuse what cannot be done."""
    parser = build_parser()
    options = parse_quickly(parser, QUICK, arguments)
    for name in ("rounds", "tokens", "warm_up"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {options.rounds}")
    if missing := missing_files(options.data):
        parser.error(f"--data must hold {', '.join(missing)}, got {options.data} without them")
    return options


def find(options: argparse.Namespace, command: str, folder: Path) -> Findings:
    """Prepare the data, measure the machine, then everybody."""
    arguments = [str(options.data.resolve()), str(folder), str(options.vocabulary)]
    with ScriptProcess(sys.executable, "end_to_end_folder.py", *arguments) as preparation:
        prepared = Prepared(**preparation.greeting)
    environments = {"joeynmt": options.joeynmt_python, "eole": options.eole_python}
    pythons = {name: python_of(LOOPS[name], environments) for name in options.loops}
    plan = Plan(
        sizes=options.sizes,
        precisions=options.precisions,
        pythons={name: python for name, python in pythons.items() if python is not None},
        rounds=options.rounds,
        tokens=options.tokens,
        warm_up=options.warm_up,
        folder=folder,
        prepared=prepared,
    )
    peaks = run_alone(measure_peaks, 1)
    flops = {
        size: flops_a_target_token(folder, size, prepared.vocab_size) for size in options.sizes
    }
    return Findings(
        machine=describe_machine(),
        command=command,
        prepared=prepared,
        tokens=plan.tokens,
        warm_up=plan.warm_up,
        peaks=peaks,
        contests=measure(plan, flops, peaks),
        absent=[name for name, python in pythons.items() if python is None],
    )


def main(arguments: list[str]) -> None:
    """Measure, print, and write what was found."""
    options = parse_options(arguments)
    with TemporaryDirectory() as folder:
        findings = find(options, shown_command(SCRIPT, arguments), Path(folder))
    publish(write_report(findings), SCRIPT, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
