"""The tables of what the recipes reach."""

import statistics
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from benchmarks.results import table

MINUTE = 60

# BLEU and chrF: what we promise; BLEU: what others published or what we aim for.
BARS = {
    "multi30k-tiny": {"flickr2016": 41.0, "flickr2017": 32.8, "mscoco2017": 29.0},
    "en-de-small": {"tatoeba": 43.0, "challenge": 33.0, "europarl": 19.0},
}
CHRF_BARS = {"en-de-small": {"tatoeba": 60.5}}
AIMS = {
    "multi30k-tiny": {"flickr2016": 41.02, "flickr2017": 33.36, "mscoco2017": 29.88},
    "multi30k-tiny-en-fr": {"flickr2016": 61.80, "flickr2017": 53.46, "mscoco2017": 44.52},
    "multi30k-small": {"flickr2016": 42.5, "flickr2017": 35.0, "mscoco2017": 31.0},
}

EXPLANATION = """\
- Each row is a test set, translated by the model that the recipe leaves: the mean of its last
  checkpoints, with the recipe's beams and length penalty. No test set took part in any choice.
- BLEU of each seed, in the order of the seeds, and their mean; chrF: the mean. Both by sacrebleu.
- The aims of multi30k-tiny are the published figures of Transformer-Tiny (Wu et al., 2021, text
  only), en-de and en-fr; those of multi30k-small are our own.
- Numbers written out in words: *exact* is the share of unseen numbers that are right to the letter.
- en-de-small: up to step 1,996 in one process; resumed six times; up to step 960 its warm-up was
  meant to be 4,000 steps long, up to step 22,156 it had no rule against repetitions.
- Time: of the training steps, without evaluations and the work at both ends."""


@dataclass(frozen=True)
class RunFacts:
    """What is worth keeping of a finished run."""

    recipe: str
    changes: list[str]  # by --set, the seed aside
    seed: int
    time: float  # of its last start, in seconds since 1970
    steps: int
    seconds: float
    scores: dict[str, Any]
    parameters: int
    processes: int
    machine: str
    versions: dict[str, str]

    @property
    def settings(self) -> str:
        """What the runs of different seeds have in common."""
        return " ".join([self.recipe, *(f"--set {change}" for change in self.changes)])

    @property
    def name(self) -> str:
        return f"{self.settings} --set seed={self.seed}"


def write_report(runs: list[RunFacts], command: str) -> str:
    """Write the whole section, without its markers."""
    groups: dict[str, list[RunFacts]] = defaultdict(list)
    for run in runs:
        groups[run.settings].append(run)
    parts = [
        "## Quality",
        f"`{command}`, after `python training/train.py --config training/recipes/RECIPE.yaml "
        "--output runs/... --set seed=...` for each run.",
        EXPLANATION,
        score_table(groups),
        run_table(runs),
    ]
    return "\n\n".join(parts)


def score_table(groups: dict[str, list[RunFacts]]) -> str:
    """Write a row for each test set of each recipe."""
    header = ["recipe", "test set", "BLEU of each seed", "mean", "bar", "aim"]
    header += ["chrF", "bar", "exact"]
    return table(header, [_row(*one) for group in groups.items() for one in _sets(*group)])


def _sets(settings: str, runs: list[RunFacts]) -> list[tuple[str, str, list[RunFacts]]]:
    return [(settings, name, runs) for name in runs[0].scores]


def _row(settings: str, name: str, runs: list[RunFacts]) -> list[str]:
    scores = [run.scores[name] for run in runs]
    bleu, chrf, exact = (
        statistics.fmean(one[key] for one in scores) for key in ("bleu", "chrf", "exact")
    )
    aim = AIMS.get(runs[0].recipe, {}).get(name)  # however much of the recipe was run
    return [
        settings,
        name,
        " / ".join(f"{one['bleu']:.2f}" for one in scores),
        f"{bleu:.2f}",
        _answer(bleu, BARS.get(settings, {}).get(name)),
        "" if aim is None else f"{aim:.2f}",
        f"{chrf:.2f}",
        _answer(chrf, CHRF_BARS.get(settings, {}).get(name)),
        f"{exact:.2f}%",
    ]


def _answer(score: float, bar: float | None) -> str:
    return "" if bar is None else f"{bar:.1f}: {'met' if score >= bar else 'missed'}"


def run_table(runs: list[RunFacts]) -> str:
    """Write when, where and how long each run trained."""
    header = ["recipe", "begun", "machine", "seed", "processes", "parameters", "steps", "minutes"]
    return table(
        [*header, "versions"],
        [
            [
                run.settings,
                datetime.fromtimestamp(run.time, UTC).strftime("%Y-%m-%d"),
                run.machine,
                *(f"{number:,}" for number in (run.seed, run.processes, run.parameters, run.steps)),
                f"{run.seconds / MINUTE:.0f}",
                ", ".join(f"{name} {version}" for name, version in run.versions.items()),
            ]
            for run in runs
        ],
    )
