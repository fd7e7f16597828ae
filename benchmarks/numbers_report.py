"""The table and the curves of everybody who learned to write numbers."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from matplotlib import pyplot
from matplotlib.axes import Axes

from benchmarks.results import table
from vanilla_transformer.attention_scores import SCORES
from vanilla_transformer.position_encodings import POSITION_ENCODINGS

LSTM = "LSTM"
ENOUGH = 95.0  # percent of numbers that are right to the letter
MINUTE = 60
Curve = list[tuple[int, float]]

TRANSFORMERS = {
    f"{score}, {positions}": (score, positions)
    for positions in POSITION_ENCODINGS
    for score in SCORES
}
LINES = dict(zip(POSITION_ENCODINGS, ("-", "--", ":"), strict=False))  # the LSTM's is another

EXPLANATION = """\
- Every model learns from the same batches of the same pairs, in as many steps, with the same
  optimizer and learning rates, those of `training/recipes/numbers.yaml`. Tables of positions have
  64 rows. Ours computes in bfloat16 where the processor has it, the LSTM in float32.
- *LSTM*: an encoder that reads from both ends and a decoder with additive attention, as wide as it
  takes to have as many parameters as the Transformer with scaled dot products. The Transformers
  differ by what a score or a table of positions adds, {spread:.1f} % at most.
- *exact*: unseen numbers that are right to the letter, translated greedily. Bar: every score gets
  {enough:.0f} % of the test set right. Minutes: of the training steps."""


@dataclass(frozen=True)
class ComparedRun:
    """What is worth keeping of a run."""

    name: str
    parameters: int
    steps: int
    seconds: float
    time: float  # of its start, in seconds since 1970
    machine: str
    versions: dict[str, str]
    losses: Curve  # of training
    exact: Curve  # percent of the validation set
    scores: dict[str, dict[str, float | str]]

    @property
    def result(self) -> float:
        """Percent of the test set."""
        return float(self.scores["numbers"]["exact"])


def in_order(runs: list[ComparedRun]) -> list[ComparedRun]:
    """Transformers by positions and score, then the others."""
    order = [*TRANSFORMERS, LSTM]
    return sorted(runs, key=lambda run: order.index(run.name))


def write_report(runs: list[ComparedRun], command: str) -> str:
    """Write the whole section, without its markers."""
    parts = [
        "## Six scores, two position schemes and an LSTM on one task",
        f"`{command} --train all`",
        EXPLANATION.format(enough=ENOUGH, spread=_spread(runs)),
        score_table(runs),
        f"Machine and versions: {'; '.join(dict.fromkeys(map(_origin, runs)))}.",
    ]
    return "\n\n".join(parts)


def _spread(runs: list[ComparedRun]) -> float:
    counts = [run.parameters for run in runs]
    return 100 * (max(counts) / min(counts) - 1)


def score_table(runs: list[ComparedRun]) -> str:
    """Write a row for each model."""
    header = ["model", "positions", "bar", "parameters", "steps", "minutes"]
    looks = sorted({step for run in runs for step, _ in run.exact})
    header += [f"exact after {step:,}" for step in looks]
    return table([*header, "exact, test", "loss, test"], [_row(run, looks) for run in runs])


def _row(run: ComparedRun, looks: list[int]) -> list[str]:
    score, positions = TRANSFORMERS.get(run.name, (run.name, ""))
    exact = dict(run.exact)
    return [
        score,
        positions,
        "" if run.name == LSTM else "met" if run.result >= ENOUGH else "missed",
        *(f"{number:,}" for number in (run.parameters, run.steps)),
        f"{run.seconds / MINUTE:.1f}",
        *(f"{exact[step]:.1f}%" if step in exact else "" for step in looks),
        f"{run.result:.2f}%",
        f"{run.scores['numbers']['loss']:.3f}",
    ]


def _origin(run: ComparedRun) -> str:
    day = datetime.fromtimestamp(run.time, UTC).strftime("%Y-%m-%d")
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    return f"{day}, {run.machine}, {versions}"


def draw_chart(runs: list[ComparedRun], path: Path) -> None:
    """Save a picture of what was learned when."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    _draw(left, runs, {run.name: run.losses for run in runs})
    left.set_ylabel("training loss")
    _draw(right, runs, {run.name: run.exact for run in runs})
    right.set_ylabel("validation numbers right, %")
    right.axhline(ENOUGH, color="black", linewidth=0.6, linestyle=":")
    handles = left.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", frameon=False, ncols=4, fontsize=8)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _draw(axes: Axes, runs: list[ComparedRun], curves: dict[str, Curve]) -> None:
    colors = dict(zip([*SCORES, LSTM], pyplot.cm.tab10.colors, strict=False))  # type: ignore[attr-defined]  # made at run time
    for run in runs:
        score, positions = TRANSFORMERS.get(run.name, (LSTM, ""))
        line = LINES.get(positions, "-.")
        axes.plot(
            *zip(*curves[run.name], strict=True), line, color=colors[score], label=run.name, lw=1.2
        )
    axes.set_xlabel("steps")
    axes.spines[["top", "right"]].set_visible(False)
