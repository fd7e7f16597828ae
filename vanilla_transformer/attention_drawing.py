"""How attention maps are drawn with matplotlib: as grids of cells, and as lines between words."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from .attention_maps import AttentionMaps

KINDS = {
    "encoder": ("Encoder self-attention", "source words", "at the source"),
    "decoder": (
        "Decoder self-attention",
        "words read while writing",
        "at themselves and those before",
    ),
    "cross": ("Cross-attention", "words written", "at the source"),
}
AS_CELLS, AS_LINES = "Rows: {}. They look {}: columns.", "Left: {}. They look {}: right."
BLUE, INK, QUIET, PALE = "#2f7ebc", "#23282e", "#66707b", "#b4bbc3"
# Okabe and Ito's, which the colour-blind tell apart; without yellow, which nobody sees on white.
HEAD_COLORS = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#7f7f33", "#444444",
)  # fmt: skip
BLUES = colormaps["Blues"].with_extremes(bad="white")  # what is masked
CELLS: dict[str, Any] = {
    "cmap": BLUES,
    "norm": PowerNorm(0.5, vmin=0, vmax=1),
}  # small weights show
TICKS = [0, 0.02, 0.1, 0.25, 0.5, 1]
NUMBERED = 14  # words beside a map in whose cells numbers find room
LABEL = 22  # letters of a word
SMALLEST_LINE = 0.02  # weights below draw no line


def draw_grid(maps: "AttentionMaps", kind: str) -> Figure:
    """All heads of all layers, small."""
    layers, heads, rows, columns = maps.weights[kind].shape
    side = min(1.6, 20 / heads)
    width = heads * side + 0.6
    height = layers * side * min(max(rows / columns, 0.6), 1.6) + 1.1
    figure = Figure(figsize=(max(width, 5), height), layout="constrained")
    all_axes = figure.subplots(layers, heads, squeeze=False)
    for layer in range(layers):
        for head in range(heads):
            axes = all_axes[layer, head]
            _draw_cells(axes, maps.of(kind, layer + 1, head + 1))
            if layer == 0:
                axes.set_title(f"head {head + 1}", fontsize=9, color=QUIET)
            if head == 0:
                axes.set_ylabel(f"layer {layer + 1}", fontsize=9)
    _write_title(figure, maps, kind, f"all {layers} layers and {heads} heads")
    return figure


def draw_layer(maps: "AttentionMaps", kind: str, layer: int) -> Figure:
    """All heads of a layer, with their words."""
    layers, heads = maps.weights[kind].shape[:2]
    rows, columns = (_shortened(side.labels) for side in maps.sides(kind))
    across = min(heads, 4 if len(columns) < 30 else 2)
    down = -(-heads // across)
    sizes = _sizes(rows, columns, 0.2)
    figure = Figure(
        figsize=(
            across * (sizes[0] + 0.15) + sizes[2],
            down * (sizes[1] + sizes[3] + 0.35) + 0.8,
        ),
        layout="constrained",
    )
    all_axes = figure.subplots(down, across, squeeze=False, sharey=True).flatten()
    for head, axes in enumerate(all_axes, start=1):
        if head > heads:
            axes.set_axis_off()
            continue
        _draw_cells(axes, maps.of(kind, layer, head))
        _label_cells(axes, rows, columns, fontsize=8, rotation=90)
        axes.set_title(f"head {head}", fontsize=10, color=QUIET)
    _write_title(figure, maps, kind, f"layer {layer} of {layers}")
    return figure


def draw_head(maps: "AttentionMaps", kind: str, layer: int, head: int | None) -> Figure:
    """One head, or the mean of a layer's heads, large."""
    rows, columns = (_shortened(side.labels) for side in maps.sides(kind))
    width, height, left, above = _sizes(rows, columns, 0.36)
    figure = Figure(figsize=(width + left + 1.3, height + above + 1), layout="constrained")
    axes = figure.subplots()
    weights = maps.of(kind, layer, head)
    _draw_cells(axes, weights)
    _label_cells(axes, rows, columns, fontsize=10, rotation=45)
    if max(len(rows), len(columns)) <= NUMBERED:
        _write_numbers(axes, weights)
    scale = figure.colorbar(ScalarMappable(**CELLS), ax=axes, shrink=0.7, aspect=30, ticks=TICKS)
    scale.ax.set_yticklabels([f"{tick:.0%}" for tick in TICKS], fontsize=8)
    scale.outline.set_visible(False)
    _write_title(figure, maps, kind, _place(maps, kind, layer, head))
    return figure


def draw_links(maps: "AttentionMaps", kind: str, layer: int, head: int | None) -> Figure:
    """Words left and right, and a line as strong as the attention; all heads in their colours."""
    heads = maps.weights[kind].shape[1]
    sides = [_shortened(side.labels) for side in maps.sides(kind)]
    shown = range(1, heads + 1) if head is None else [head]
    figure, axes = _two_columns(*sides)
    for index, one in enumerate(shown):
        color = HEAD_COLORS[(one - 1) % len(HEAD_COLORS)] if head is None else BLUE
        shift = (index - (len(shown) - 1) / 2) * 0.6 / len(shown)
        weights = np.asarray(maps.of(kind, layer, one))
        _draw_lines(axes, weights, color, shift, widest=max(12 / len(shown), 1.5))
        axes.plot([], [], color=color, linewidth=3, label=f"head {one}")
    if head is None:
        axes.legend(
            loc="upper center", bbox_to_anchor=(0.5, 0), ncols=4, frameon=False, fontsize=8,
            handlelength=1, columnspacing=1.2,
        )  # fmt: skip
    _write_title(figure, maps, kind, _place(maps, kind, layer, head, "all heads"), AS_LINES)
    return figure


def draw_alignment(maps: "AttentionMaps") -> Figure:
    """Which source word each word of the target was read off."""
    maps.check("cross")
    source, target = (_shortened(text.split()) for text in (maps.source_text, maps.target_text))
    weights = np.zeros((len(source), len(target)))
    for target_word, source_word in maps.links():
        weights[source_word - maps.prefix_words, target_word] = 1
    figure, axes = _two_columns(source, target, ~weights.any(axis=1))
    _draw_lines(axes, weights, BLUE, 0.0, widest=1.6)
    told = f"cross-attention of layer {maps.default_layer('cross')}, mean of its heads"
    figure.suptitle("Alignment", fontsize=12, x=0.02, ha="left")
    caption = f"Left: source. Right: target. By {told}."
    figure.supxlabel(caption, fontsize=8.5, color=QUIET, x=0.02, ha="left")
    return figure


def _draw_cells(axes: Axes, weights: Any) -> None:
    shown = np.ma.masked_equal(np.asarray(weights), 0)
    axes.imshow(shown, aspect="auto", interpolation="nearest", **CELLS)
    axes.set(xticks=[], yticks=[])


def _label_cells(
    axes: Axes, rows: Sequence[str], columns: Sequence[str], fontsize: float, rotation: int
) -> None:
    axes.xaxis.tick_top()
    slanted: dict[str, Any] = {
        "rotation": rotation,
        "ha": "left",
        "va": "center",
        "rotation_mode": "anchor",
    }
    axes.set_xticks(range(len(columns)), columns, fontsize=fontsize, **slanted)
    axes.set_yticks(range(len(rows)), rows, fontsize=fontsize)
    axes.tick_params(pad=3)


def _write_numbers(axes: Axes, weights: Any) -> None:
    """Percent in every cell that is not almost empty."""
    for (row, column), weight in np.ndenumerate(np.asarray(weights)):
        if weight >= 0.005:
            color = "white" if weight > 0.35 else INK
            look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7.5, "color": color}
            axes.text(column, row, f"{100 * weight:.0f}", **look)


def _two_columns(
    left: Sequence[str], right: Sequence[str], is_quiet: Any = None
) -> tuple[Figure, Axes]:
    """Words one below another on both sides, the shorter column in the middle."""
    count = max(len(left), len(right))
    figure = Figure(figsize=(6.5, 0.27 * count + 1.3), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(0, 1), ylim=(count - 0.4, -0.6))
    axes.set_axis_off()
    for words, x, align in ((left, -0.02, "right"), (right, 1.02, "left")):
        for index, word in enumerate(words):
            pale = x < 0 and is_quiet is not None and is_quiet[index]
            y = index + (count - len(words)) / 2
            look: dict[str, Any] = {
                "ha": align,
                "va": "center",
                "fontsize": 10,
                "color": PALE if pale else INK,
            }
            axes.text(x, y, word, **look)
    return figure, axes


def _draw_lines(axes: Axes, weights: Any, color: str, shift: float, widest: float) -> None:
    """A curve for each weight that counts, from its row left to its column right."""
    count = max(weights.shape)
    starts = [(count - length) / 2 + shift for length in weights.shape]
    x = np.linspace(0, 1, 40)
    bend = x * x * (3 - 2 * x)
    rows, columns = np.nonzero(weights >= SMALLEST_LINE)
    strengths = weights[rows, columns]
    curves = [
        np.column_stack([x, starts[0] + row + (starts[1] + column - starts[0] - row) * bend])
        for row, column in zip(rows, columns, strict=True)
    ]
    look: dict[str, Any] = {"linewidths": widest * strengths, "alpha": 0.2 + 0.7 * strengths}
    axes.add_collection(LineCollection(curves, colors=color, capstyle="round", **look))


def _sizes(
    rows: Sequence[str], columns: Sequence[str], cell: float
) -> tuple[float, float, float, float]:
    """Inches: width and height of the cells, room for the words left and above."""
    left, above = (max(map(len, words)) * 0.085 + 0.1 for words in (rows, columns))
    return max(len(columns) * cell, 1.6), max(len(rows) * cell, 1.6), left, above


def _place(
    maps: "AttentionMaps", kind: str, layer: int, head: int | None, together: str = ""
) -> str:
    layers, heads = maps.weights[kind].shape[:2]
    told = f"head {head} of {heads}" if head else together or f"mean of {heads} heads"
    return f"layer {layer} of {layers}, {told}"


def _write_title(
    figure: Figure, maps: "AttentionMaps", kind: str, place: str, caption: str = AS_CELLS
) -> None:
    """What is shown, above; how to read it, below."""
    name, *sides = KINDS[kind]
    figure.suptitle(f"{name}, {place}", fontsize=12, x=0.02, ha="left")
    figure.supxlabel(caption.format(*sides), fontsize=8.5, color=QUIET, x=0.02, ha="left")


def _shortened(words: Sequence[str]) -> list[str]:
    """Words that leave room for the map."""
    return [word if len(word) <= LABEL else f"{word[: LABEL - 1]}…" for word in words]
