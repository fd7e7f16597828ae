"""Which attention learns best? Six scores, two position schemes and an LSTM on the numbers task.

`python -m benchmarks.numbers_comparison --train all` trains whatever is not on record yet, one
after the other; each run is recorded in numbers_comparison.jsonl as soon as it is finished, and one
of ours that was stopped goes on where it was. Then, as without `--train`, a table and curves of all
runs on record are put into RESULTS.md. As a module: beside a script, training.py would hide the
package of that name.
"""

import argparse
import subprocess
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks.command_line import new_parser
from benchmarks.numbers_report import (
    LSTM,
    TRANSFORMERS,
    ComparedRun,
    draw_chart,
    in_order,
    write_report,
)
from benchmarks.records import read_records, write_records
from benchmarks.recurrent_training import RecurrentRun
from benchmarks.results import publish
from training.machine import describe_machine
from training.recipe import load_recipe
from training.run_record import RunRecord, read_run

SCRIPT = "numbers_comparison.py"
COMMAND = "python -m benchmarks.numbers_comparison"
FOLDER = Path(__file__).resolve().parent
REPOSITORY = FOLDER.parent
RECIPE = REPOSITORY / "training" / "recipes" / "numbers.yaml"
RECORDS = "numbers_comparison.jsonl"
NAMES = [*TRANSFORMERS, LSTM]
# Tables of positions as long as the task needs; six looks at how it goes.
SETTINGS = ("model.max_position_embeddings=64", "evaluation.every_steps=200")


def settings_of(name: str) -> list[str]:
    """What the recipe says otherwise for a Transformer."""
    score, positions = TRANSFORMERS[name]
    return [*SETTINGS, f"model.attention_score={score}", f"model.position_encoding={positions}"]


def train(name: str, recipe: Path, folder: Path, changes: list[str]) -> ComparedRun:
    """Train one model to its end, or go on with it."""
    if name == LSTM:
        return train_recurrent(recipe, folder, changes)
    command = [sys.executable, "training/train.py", "--config", str(recipe), "--resume"]
    command += ["--output", str(folder)]
    for change in [*settings_of(name), *changes]:
        command += ["--set", change]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    return record_of(name, read_run(folder))


def record_of(name: str, run: RunRecord) -> ComparedRun:
    """Gather what is worth keeping of a finished run of training/train.py."""
    start, result = run.of("start")[-1], run.result
    if result is None or not run.is_finished:
        raise ValueError(f"A run must be finished, got {run.name} at step {run.last_step:,}.")
    return ComparedRun(
        name=name,
        steps=result["step"],
        seconds=run.curve("train", "seconds")[1][-1],
        losses=list(zip(*run.curve("train", "loss"), strict=True)),
        exact=list(zip(*run.curve("evaluation", "exact"), strict=True)),
        scores=result["scores"],
        **{key: start[key] for key in ("parameters", "time", "machine", "versions")},
    )


def train_recurrent(recipe: Path, folder: Path, changes: list[str]) -> ComparedRun:
    """Train the LSTM."""
    began, run = time.time(), RecurrentRun(load_recipe(recipe, (*SETTINGS, *changes)), folder)
    scores = run.train()
    return ComparedRun(
        name=LSTM,
        parameters=run.learner.num_parameters,
        steps=run.recipe.optimization.max_steps,
        seconds=run.seconds,
        time=began,
        machine=describe_machine(),
        versions={"torch": version("torch")},
        losses=run.losses,
        exact=run.exact,
        scores=scores,
    )


def keep(records: Path, run: ComparedRun) -> None:
    """Add a run to those on record, in place of the one of its name."""
    runs = {one.name: one for one in [*read_records(records, ComparedRun), run]}
    write_records(records, in_order([*runs.values()]))


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Read the command line; `--train all` is all that is not on record."""
    parser = new_parser(COMMAND, __doc__)
    add = parser.add_argument
    add("--train", nargs="+", choices=[*NAMES, "all"], default=[], metavar="NAME", help="or all")
    add("--runs", type=Path, default=REPOSITORY / "runs" / "numbers-comparison")
    add("--recipe", type=Path, default=RECIPE)
    add("--set", nargs="+", default=[], dest="changes", help="section.key=value, for everybody")
    add("--output", type=Path, default=FOLDER, help="folder of RESULTS.md")
    options = parser.parse_args(arguments)
    if (options.changes or options.recipe != RECIPE) and options.output == FOLDER:
        parser.error("--set and --recipe are for trials: give their records another --output")
    if "all" in options.train:
        recorded = {one.name for one in read_records(options.output / RECORDS, ComparedRun)}
        options.train = [name for name in NAMES if name not in recorded]
    return options


def main(arguments: list[str]) -> None:
    """Train, record, print, and write what was found."""
    options = parse_options(arguments)
    records = options.output / RECORDS
    for name in options.train:
        folder = (options.runs / name.replace(", ", "-")).resolve()
        keep(records, train(name, options.recipe, folder, options.changes))
    runs = in_order(read_records(records, ComparedRun))
    if not runs:
        raise SystemExit(f"{COMMAND}: nothing is on record in {records}: --train all")
    publish(
        write_report(runs, COMMAND), SCRIPT, options.output, "Learning", partial(draw_chart, runs)
    )


if __name__ == "__main__":
    main(sys.argv[1:])
