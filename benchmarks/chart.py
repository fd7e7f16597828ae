"""The chart of a run: how many times faster than MarianMT everybody trains."""

from pathlib import Path

from matplotlib import pyplot
from matplotlib.axes import Axes

from benchmarks.comparison import Comparison
from benchmarks.contestants import OURS, REFERENCE
from benchmarks.report import BATCH_NAMES

COLORS = {(OURS, "fp32"): "#08519c", (OURS, "bf16"): "#6baed6"}
OTHER_COLORS = {"fp32": "#737373", "bf16": "#bdbdbd"}
BARS_WIDTH = 0.8  # of a group, whose centre is one unit from the next

Series = dict[tuple[str, str], dict[tuple[str, str], float]]


def group_ratios(comparisons: list[Comparison]) -> Series:
    """Collect ratios to MarianMT: {(contestant, precision): {(size, batches): ratio}}."""
    series: Series = {}
    for one in comparisons:
        for name in one.contestants:
            if name != REFERENCE:
                group = (one.setting.size, one.setting.batches)
                bars = series.setdefault((name, one.setting.dtype), {})
                bars[group] = one.ratio(name, REFERENCE)
    return dict(sorted(series.items(), key=lambda item: item[0][0] != OURS))


def draw_panel(axes: Axes, comparisons: list[Comparison]) -> None:
    """Draw one group of bars for every size and kind of batches."""
    series = group_ratios(comparisons)
    groups = list(dict.fromkeys(group for bars in series.values() for group in bars))
    width = BARS_WIDTH / len(series)
    for index, ((name, dtype), bars) in enumerate(series.items()):
        offset = (index - (len(series) - 1) / 2) * width
        drawn = axes.bar(
            [groups.index(group) + offset for group in bars],
            list(bars.values()),
            width,
            label=f"{name}, {dtype}",
            color=COLORS.get((name, dtype), OTHER_COLORS[dtype]),
        )
        axes.bar_label(drawn, fmt="%.1f", fontsize=8, padding=2)
    axes.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
    axes.set_xticks(
        range(len(groups)), [f"{size}\n{BATCH_NAMES[batches]}" for size, batches in groups]
    )
    axes.set_ylabel(f"times {REFERENCE}'s speed")
    axes.spines[["top", "right"]].set_visible(False)


def draw_chart(comparisons: list[Comparison], path: Path) -> None:
    """Save a picture with one panel for every number of threads."""
    threads = sorted({one.setting.threads for one in comparisons})
    figure, rows = pyplot.subplots(
        len(threads), figsize=(9, 3.4 * len(threads)), squeeze=False, layout="constrained"
    )
    for axes, number in zip(rows[:, 0], threads, strict=True):
        draw_panel(axes, [one for one in comparisons if one.setting.threads == number])
        timed = "1 thread, CPU time" if number == 1 else f"{number} threads, wall time"
        axes.set_title(f"Training step, {timed} (dashed: {REFERENCE}, same precision)", fontsize=10)
    figure.legend(
        *rows[0, 0].get_legend_handles_labels(), loc="outside lower center", frameon=False, ncols=4
    )
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
