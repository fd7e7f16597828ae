"""The curves of a run: loss, BLEU and chrF, learning rate, gradient norm, speed."""

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.ticker import EngFormatter, MaxNLocator

from training.run_record import RunRecord, number

BLUE, ORANGE, RED = "#2f7ebc", "#e6802b", "#d0484a"
PALE_BLUE = f"{BLUE}99"  # half transparent: pale on light and on dark ground
SETTLING = 0.05  # of the steps: what the loss falls by at first would flatten the rest
MARGIN = 0.06  # above and below the curves

STYLE: dict[Any, Any] = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.handlelength": 1.2,
    "legend.columnspacing": 1.2,
    "legend.borderaxespad": 0.1,
    "text.parse_math": False,  # a folder may be called $5
    "svg.hashsalt": "report",  # the same curves make the same file
}


def _inks(words: str, rules: str, grid: str) -> dict[Any, Any]:
    """Colours of all that is no curve."""
    are_words = ("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor")
    are_rules = ("axes.edgecolor", "xtick.color", "ytick.color")
    return dict.fromkeys(are_words, words) | dict.fromkeys(are_rules, rules) | {"grid.color": grid}


THEMES = {
    "light": STYLE | _inks("#30363d", "#9aa2ab", "#e9ecef"),
    "dark": STYLE | _inks("#d0d5db", "#6b737d", "#2a3037"),
}


def _from_zero(axes: Axes) -> None:
    axes.set_ylim(0, (1 + MARGIN) * axes.get_ylim()[1])


def _from_lowest(axes: Axes) -> None:
    """Show the lowest to the highest, as if the curves began once they have settled."""
    start = SETTLING * axes.get_xlim()[1]
    points = np.concatenate([np.asarray(line.get_xydata()) for line in axes.lines])
    values = [y for x, y in points if x >= start and math.isfinite(y)]
    if values and min(values) < max(values):
        margin = MARGIN * (max(values) - min(values))
        axes.set_ylim(min(values) - margin, max(values) + margin)


@dataclass(frozen=True)
class Curve:
    """A number of the log, by step."""

    kind: str
    name: str
    label: str
    color: str


@dataclass(frozen=True)
class Panel:
    """One chart; `marks` are the lines of the log that get a tick at its foot, and their label."""

    title: str
    unit: str
    curves: tuple[Curve, ...]
    set_limits: Callable[[Axes], None] = _from_zero
    marks: tuple[str, str] | None = None

    def in_words(self, run: RunRecord) -> str:
        """Say what the chart shows to who cannot see it: "Loss: training 9.1 to 1.2."."""
        told = []
        for curve in self.curves:
            values = [one for one in run.curve(curve.kind, curve.name)[1] if math.isfinite(one)]
            if values:
                told.append(f"{curve.label} {values[0]:.5g} to {values[-1]:.5g}")
        return f"{self.title}: {', '.join(told) or 'nothing yet'}."


PANELS = (
    Panel(
        "Loss",
        "nats a target token",
        (
            Curve("train", "loss", "training", PALE_BLUE),
            Curve("evaluation", "loss", "validation", BLUE),
        ),
        set_limits=_from_lowest,
    ),
    Panel(
        "BLEU, chrF",
        "validation, 0 to 100",
        (
            Curve("evaluation", "chrf", "chrF", ORANGE),
            Curve("evaluation", "bleu", "BLEU", BLUE),
        ),
    ),
    Panel("Learning rate", "", (Curve("train", "learning_rate", "learning rate", BLUE),)),
    Panel(
        "Gradient norm",
        "",
        (Curve("train", "gradient_norm", "gradient norm", PALE_BLUE),),
        set_limits=_from_lowest,
        marks=("skipped", "skipped step"),
    ),
    Panel(
        "Speed",
        "target tokens/s",
        (Curve("train", "tokens_per_second", "target tokens/s", PALE_BLUE),),
        marks=("start", "resumed"),
    ),
)


def draw_sheet(run: RunRecord) -> bytes:
    """Draw all charts on one sheet, a PNG."""
    with rc_context(THEMES["light"]):
        return _save(sheet_of(run), "png", dpi=120, facecolor="white")


def draw_panels(run: RunRecord, theme: str) -> list[bytes]:
    """Draw each chart by itself, an SVG without a ground."""
    with rc_context(THEMES[theme]):
        return [_save(_figure_of(panel, run), "svg", metadata={"Date": None}) for panel in PANELS]


def sheet_of(run: RunRecord) -> Figure:
    """Lay two large charts above three small ones."""
    figure = Figure(figsize=(12, 7), layout="constrained")
    grid = GridSpec(2, 6, figure=figure, height_ratios=(3, 2))
    places = [grid[0, :3], grid[0, 3:], grid[1, :2], grid[1, 2:4], grid[1, 4:]]
    for place, panel in zip(places, PANELS, strict=True):
        _draw(figure.add_subplot(place), panel, run)
    figure.suptitle(f"{run.name}, step {run.last_step:,}", x=0.01, ha="left", fontsize=13)
    return figure


def _figure_of(panel: Panel, run: RunRecord) -> Figure:
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    _draw(figure.add_subplot(), panel, run)
    return figure


def _draw(axes: Axes, panel: Panel, run: RunRecord) -> None:
    axes.set_title(panel.title)
    if not any(run.of(curve.kind) for curve in panel.curves):
        axes.text(0.5, 0.5, "nothing yet", ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    axes.set_xlim(0, 1.02 * max(run.last_step, 1))
    for curve in panel.curves:
        _draw_curve(axes, curve, run)
    panel.set_limits(axes)
    if panel.marks:
        _draw_marks(axes, *panel.marks, run)
    axes.set(xlabel="step", ylabel=panel.unit)
    axes.xaxis.set(major_formatter=EngFormatter(), major_locator=MaxNLocator(6, integer=True))
    handles = axes.get_legend_handles_labels()[0]
    shown = handles if len(panel.curves) > 1 else handles[1:]  # one curve is what the title says
    if shown:
        axes.legend(handles=shown, ncols=len(shown), loc="lower right", bbox_to_anchor=(1, 1))


def _draw_curve(axes: Axes, curve: Curve, run: RunRecord) -> None:
    """Draw a line; what is measured seldom with points, and a ring around the best of them."""
    is_seldom = curve.kind == "evaluation"
    steps, values = run.curve(curve.kind, curve.name)
    look: dict[str, Any] = {"linewidth": 1.6 if is_seldom else 1.0}
    if is_seldom or len(steps) == 1:  # a line needs two
        look |= {"marker": "o", "markersize": 3}
    axes.plot(steps, values, color=curve.color, label=curve.label, **look)
    best = run.best_evaluation
    if is_seldom and best is not None and curve.name == run.recipe.evaluation.best_by:
        value = number(best, curve.name)
        label = f"best: {value:.4g} at {best['step']:,}"
        axes.plot([best["step"]], [value], "o", ms=9, mfc="none", color=curve.color, label=label)


def _draw_marks(axes: Axes, kind: str, label: str, run: RunRecord) -> None:
    """Draw short ticks at the foot."""
    steps = [line["step"] for line in run.of(kind) if line["step"]]
    if steps:
        foot = axes.get_xaxis_transform()
        axes.plot(steps, [0.03] * len(steps), "|", color=RED, transform=foot, label=label)


def _save(figure: Figure, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=format, **options)
    return file.getvalue()
