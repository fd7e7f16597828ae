"""The chart of Table 1: time and memory over the length, on two logarithmic axes."""

from collections.abc import Iterable
from pathlib import Path

from matplotlib import pyplot
from matplotlib.axes import Axes

from benchmarks.layer_kinds import (
    CONVOLUTION,
    EAGER,
    GRU,
    KINDS,
    LSTM,
    RESTRICTED,
    SELF_ATTENTION,
)
from benchmarks.layer_measures import Measure
from benchmarks.layers_report import MEBIBYTE, MILLI, Findings, points_of

COLORS = {
    SELF_ATTENTION: "#08519c",
    EAGER: "#6baed6",
    RESTRICTED: "#31a354",
    LSTM: "#d94801",
    GRU: "#fdae6b",
    CONVOLUTION: "#737373",
}
COLUMNS = 2


def draw_panel(axes: Axes, measures: Iterable[Measure], width: int, unit: float) -> None:
    """Draw a curve for every kind of layer."""
    measures = list(measures)
    for kind in KINDS:
        lengths, values = zip(*points_of(measures, kind, width), strict=True)
        scaled = [value / unit for value in values]
        axes.plot(lengths, scaled, color=COLORS[kind], marker="o", markersize=3, label=kind)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths], fontsize=7)
    axes.set_xlabel("words, n")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, linewidth=0.3)


def draw_chart(findings: Findings, path: Path) -> None:
    """Save a picture with a panel for every width, and for memory."""
    memory_widths = sorted({one.width for one in findings.memory})
    panels = [("ms", width, findings.times, MILLI) for width in findings.widths]
    panels += [("MiB", width, findings.memory, MEBIBYTE) for width in memory_widths]
    count = -(-len(panels) // COLUMNS)
    figure, grid = pyplot.subplots(
        count, COLUMNS, figsize=(10, 3.6 * count), squeeze=False, layout="constrained"
    )
    for axes, (unit_name, width, measures, unit) in zip(grid.flat, panels, strict=False):
        draw_panel(axes, measures, width, unit)
        axes.set_ylabel(unit_name)
        told = "time, forward and backward" if measures is findings.times else "peak memory"
        axes.set_title(f"{told}, d = {width}", fontsize=10)
    for axes in grid.flat[len(panels) :]:
        axes.axis("off")
    handles = grid[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", frameon=False, ncols=len(KINDS))
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
