"""The tables of Table 1."""

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.layer_growth import Points, crossing, exponent, over_line
from benchmarks.layer_kinds import KERNEL, KINDS, RESTRICTED, SELF_ATTENTION, WINDOW
from benchmarks.layer_measures import Measure
from benchmarks.results import table

TOLERANCE = 0.25  # of a fitted exponent
MOST_OVER_LINE = 1.2
LARGE = 3  # lengths, the largest ones, which an exponent is fitted to
DILATED_PROMISE = ["1", "log_k n"]
SHOWN = 2  # every other length has a row; the chart shows all
MILLI, MEBIBYTE = 1e-3, 2**20

EXPLANATION = """\
- A layer of each kind maps a sentence of n words, d wide, to as many of the same width: forward,
  and the gradients of the input and of all weights back. One sentence, float32, one thread, CPU
  time; all kinds take turns at all lengths, and the median of {rounds} turns counts, of at least
  20 ms each.
- Self-attention is this package's own layer with its four projections, in heads of 64; *eager*
  keeps all n² weights, the other goes through torch's fused kernel (up to 256 words through
  packed products). *Restricted* has `attention_window={window}`, so many words to either side.
  LSTM and GRU are torch's, of which only the LSTM is fused on CPUs; the convolution has
  k = {kernel}.
- The paper counts the comparisons, n² d, and not the projections, 4 n d²: the square shows where n
  is much larger than d. Bars are those of the smallest d; the other widths show what is usual.
  Much narrower layers would measure what a call costs in Python.
- Exponents are slopes of lines through the logarithms at the {large} largest n.
- Memory: the most that a pass adds to a fresh process; the median of {rounds} of them."""

PATHS_EXPLANATION = """\
Sequential operations: the longest chain in the graph that torch records, where each operation needs
the one before (recurrent layers step by step). Path: the number of layers, or of a recurrence's
steps, after which the last word's gradient has got to the first. Both are counted in small layers,
the restricted one with r = {window}."""

CROSSING_EXPLANATION = """\
From how many words on self-attention takes longer than the others. Table 1 expects it to be the
faster one of self-attention and recurrence while n < d."""


@dataclass(frozen=True)
class Findings:
    """Everything one run found out."""

    machine: str
    command: str
    rounds: int
    times: list[Measure]
    memory: list[Measure]
    chains: dict[str, Points]  # longest chain of operations by length, of each kind
    paths: dict[str, Points]
    path_window: int

    @property
    def widths(self) -> list[int]:
        return sorted({one.width for one in self.times})


def points_of(measures: Iterable[Measure], kind: str, width: int) -> Points:
    """The curve of a kind of layer, by rising length."""
    own = [one for one in measures if (one.kind, one.width) == (kind, width)]
    return sorted((one.length, one.value) for one in own)


def write_report(findings: Findings) -> str:
    """Write the whole section, without its markers."""
    told = {"rounds": findings.rounds, "window": WINDOW, "kernel": KERNEL, "large": LARGE}
    return "\n\n".join(
        [
            "## Table 1, measured",
            f"{findings.machine}.",
            f"`{findings.command}`",
            bar_table(findings),
            EXPLANATION.format(**told),
            growth_table(findings),
            PATHS_EXPLANATION.format(window=findings.path_window),
            path_table(findings),
            CROSSING_EXPLANATION,
            crossing_table(findings),
            time_table(findings),
            *([memory_table(findings)] if findings.memory else []),
        ]
    )


def bar_table(findings: Findings) -> str:
    """Write what was promised of growth, and whether it came true."""
    width = findings.widths[0]
    rows = []
    for kind, layer in KINDS.items():
        found = exponent(points_of(findings.times, kind, width)[-LARGE:])
        is_met = abs(found - layer.exponent) <= TOLERANCE
        wanted = f"{layer.exponent} ± {TOLERANCE}"
        rows.append(
            [f"exponent of n, {kind}, d = {width}", wanted, _verdict(is_met), f"{found:.2f}"]
        )
    for width in sorted({one.width for one in findings.memory}):
        points = points_of(findings.memory, RESTRICTED, width)
        over = over_line(points)
        name = (
            f"restricted, d = {width}: memory at n = {points[-1][0]:,} over the linear prediction"
        )
        verdict = _verdict(over <= MOST_OVER_LINE)
        rows.append([name, f"at most {MOST_OVER_LINE}", verdict, f"{over:.2f}"])
    return table(["bar", "wanted", "verdict", "found"], rows)


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"


def growth_table(findings: Findings) -> str:
    """Write the exponents of time at every width, and of memory, beside the paper's."""
    memory_widths = sorted({one.width for one in findings.memory})
    header = ["layer", "operations", "sequential", "paper's exponent"]
    header += [f"time, d = {width}" for width in findings.widths]
    header += [f"memory, d = {width}" for width in memory_widths]
    rows = []
    for kind, layer in KINDS.items():
        curves = [points_of(findings.times, kind, width) for width in findings.widths]
        curves += [points_of(findings.memory, kind, width) for width in memory_widths]
        fitted = [f"{exponent(points[-LARGE:]):.2f}" for points in curves]
        rows.append([kind, layer.operations, layer.sequential, str(layer.exponent), *fitted])
    return table(header, rows)


def path_table(findings: Findings) -> str:
    """Write what was counted, at every length."""
    lengths = [length for length, _ in next(iter(findings.paths.values()))]
    header = ["layer", "paper: sequential", "paper: path"]
    header += [f"chain, n = {length}" for length in lengths]
    header += [f"path, n = {length}" for length in lengths]
    rows = []
    for kind, path in findings.paths.items():
        layer = KINDS.get(kind)
        promised = [layer.sequential, layer.path] if layer else DILATED_PROMISE
        counted = [*findings.chains.get(kind, [(0, "")] * len(lengths)), *path]
        rows.append([kind, *promised, *(str(value) for _, value in counted)])
    return table(header, rows)


def crossing_table(findings: Findings) -> str:
    """Write from which length on self-attention is the slower one."""
    others = [kind for kind in KINDS if kind != SELF_ATTENTION]
    rows = []
    for width in findings.widths:
        ours = points_of(findings.times, SELF_ATTENTION, width)
        met = (crossing(ours, points_of(findings.times, kind, width)) for kind in others)
        rows.append([f"d = {width}", *(_spelled(length, ours[0][0]) for length in met)])
    return table(["width", *others], rows)


def _spelled(length: float | None, shortest: int) -> str:
    if length is None:
        return "never"
    return "always" if round(length) <= shortest else f"{length:,.0f}"


def time_table(findings: Findings) -> str:
    """Write milliseconds for some of the lengths."""
    rows = []
    for width in findings.widths:
        curves = [points_of(findings.times, kind, width) for kind in KINDS]
        for row in list(zip(*curves, strict=True))[::-SHOWN][::-1]:
            spelled = [_milliseconds(value) for _, value in row]
            rows.append([str(width), f"{row[0][0]:,}", *spelled])
    return table(["d", "n", *(f"{kind}, ms" for kind in KINDS)], rows)


def _milliseconds(seconds: float) -> str:
    return f"{seconds / MILLI:,.{0 if seconds > 100 * MILLI else 1 if seconds > MILLI else 2}f}"


def memory_table(findings: Findings) -> str:
    """Write mebibytes for every length."""
    rows = []
    for width in sorted({one.width for one in findings.memory}):
        curves = [points_of(findings.memory, kind, width) for kind in KINDS]
        for row in zip(*curves, strict=True):
            spelled = [f"{value / MEBIBYTE:,.1f}" for _, value in row]
            rows.append([str(width), f"{row[0][0]:,}", *spelled])
    return table(["d", "n", *(f"{kind}, MiB" for kind in KINDS)], rows)
