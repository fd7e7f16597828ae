"""What do the recipes reach? The test scores of finished runs, beside bars and published figures.

`python -m benchmarks.quality runs/multi30k-tiny runs/...` reads what training/train.py left in the
folders of finished runs, adds it to quality.jsonl, prints tables of all runs told there, and puts
them into RESULTS.md. A run told again replaces itself. As a module: beside a script, training.py
would hide the package of that name.
"""

import argparse
import sys
from itertools import pairwise
from pathlib import Path

from benchmarks.command_line import new_parser
from benchmarks.quality_report import RunFacts, write_report
from benchmarks.records import read_records, write_records
from benchmarks.results import publish
from training.run_record import RunRecord, read_run

SCRIPT = "quality.py"
COMMAND = "python -m benchmarks.quality"
FOLDER = Path(__file__).resolve().parent
RECORDS = "quality.jsonl"


def facts_of(run: RunRecord) -> RunFacts:
    """Gather what is worth keeping of a finished run."""
    starts, result = run.of("start"), run.result
    if result is None or not run.is_finished:
        raise ValueError(
            f"RUN must be finished, got {run.name}, which is at step {run.last_step:,}: let "
            "training/train.py --resume bring it to its end."
        )
    start = starts[-1]
    words = start["command"].split()
    return RunFacts(
        recipe=Path(words[words.index("--config") + 1]).stem,
        changes=[
            change
            for option, change in pairwise(words)
            if option == "--set" and not change.startswith("seed=")
        ],
        seed=run.recipe.seed,
        time=starts[0]["time"],
        steps=result["step"],
        seconds=run.curve("train", "seconds")[1][-1],
        scores=result["scores"],
        **{name: start[name] for name in ("parameters", "processes", "machine", "versions")},
    )


def keep(records: Path, found: list[RunFacts]) -> list[RunFacts]:
    """Add runs to those on record, in place of the same ones, and return them all."""
    runs = {one.name: one for one in [*read_records(records, RunFacts), *found]}
    kept = [runs[name] for name in sorted(runs)]
    if found:
        write_records(records, kept)
    return kept


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = new_parser(COMMAND, __doc__)
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN", help="a finished run's folder")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of RESULTS.md")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Read the runs, print, and write what was found."""
    options = parse_options(arguments)
    try:
        found = [facts_of(read_run(folder)) for folder in options.runs]
    except ValueError as problem:
        raise SystemExit(f"{COMMAND}: {problem}") from None
    runs = keep(options.output / RECORDS, found)
    publish(write_report(runs, COMMAND), SCRIPT, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
