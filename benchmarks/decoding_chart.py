"""The chart of a decoding run: how many times faster than CTranslate2's float32 everybody is."""

from pathlib import Path

from matplotlib import pyplot
from matplotlib.axes import Axes

from benchmarks.decoding_bars import FLOAT32
from benchmarks.decoding_comparison import DecodingComparison

COLORS = {
    "ours fp32": "#6baed6",
    "ours bf16": "#2171b5",
    "ours int8": "#08306b",
    "our pipeline fp32": "#9e9ac8",
    "our pipeline bf16": "#54278f",
    "MarianMT fp32": "#d9d9d9",
    "MarianMT bf16": "#969696",
    "pipeline 4.57 fp32": "#c7e9c0",
    "pipeline 4.57 bf16": "#74c476",
    "CTranslate2 int8": "#fd8d3c",
}
SHOWN_TASK = "varied"  # what a user has
BARS_WIDTH = 0.85  # of a group, whose centre is one unit from the next


def draw_panel(axes: Axes, comparisons: list[DecodingComparison]) -> None:
    """Draw one group of bars for every size, search and batch."""
    names = [name for name in comparisons[0].contestants if name != FLOAT32]
    width = BARS_WIDTH / len(names)
    for index, name in enumerate(names):
        offset = (index - (len(names) - 1) / 2) * width
        places = [group + offset for group in range(len(comparisons))]
        ratios = [one.ratio(name, FLOAT32) for one in comparisons]
        drawn = axes.bar(places, ratios, width, label=name, color=COLORS.get(name, "#252525"))
        axes.bar_label(drawn, fmt="%.1f", fontsize=6, padding=1)
    axes.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
    labels = [
        f"{one.cell.size}\n{'greedy' if one.cell.beams == 1 else f'beam {one.cell.beams}'}"
        f"\nbatch {one.cell.batch}"
        for one in comparisons
    ]
    axes.set_xticks(range(len(labels)), labels, fontsize=7)
    axes.set_ylabel("times its speed")
    axes.spines[["top", "right"]].set_visible(False)


def draw_chart(comparisons: list[DecodingComparison], path: Path) -> None:
    """Save a picture with one panel for every number of threads."""
    tasks = {one.cell.task for one in comparisons}
    task = SHOWN_TASK if SHOWN_TASK in tasks else min(tasks)
    threads = sorted({one.cell.threads for one in comparisons})
    figure, rows = pyplot.subplots(
        len(threads), figsize=(14, 3.4 * len(threads)), squeeze=False, layout="constrained"
    )
    for axes, number in zip(rows[:, 0], threads, strict=True):
        shown = [one for one in comparisons if (one.cell.task, one.cell.threads) == (task, number)]
        draw_panel(axes, shown)
        timed = "1 thread, CPU time" if number == 1 else f"{number} threads, wall time"
        axes.set_title(f"Output tokens, {task} lengths, {timed} (dashed: {FLOAT32})", fontsize=10)
    handles, labels = rows[0, 0].get_legend_handles_labels()
    columns = -(-len(labels) // 2)
    figure.legend(handles, labels, loc="outside lower center", frameon=False, ncols=columns)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
