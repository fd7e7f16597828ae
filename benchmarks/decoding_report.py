"""The tables of a decoding run."""

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.batches import Pair
from benchmarks.contestants import SIZES
from benchmarks.decoding_bars import FLOAT32, INT8, OURS, judge, verdict
from benchmarks.decoding_comparison import Cell, DecodingComparison
from benchmarks.results import table

GIGA = 1e9
TASK_NAMES = {"fixed": "25 words", "varied": "varied"}

EXPLANATION = """\
- Output tokens a second; the median of interleaved rounds on fresh sentences, warm-up excluded. A
  round is one batch, at batch 1 eight sentences; who needs more than 12 seconds for it is timed
  once, without warm-up. Ratios are medians of the rounds'.
- One thread is timed by CPU time, two by wall time; torch, CTranslate2 and the pipelines each in
  a process of its own. CTranslate2 has for every row the best of its settings for threads and the
  size of its batches. Everybody else is as it comes.
- The same weights for all, vocabulary {vocabularies}: random, but for one attention head that
  copies the source (see `decoding_weights.py`), so that targets end where sources do.
- *25 words*: sources of 18 to 30 words, all targets cut off at 25. *varied*: random batches of
  sources as long as the sentences of {lengths}, and targets of the same lengths.
- Checked before timing: everybody's targets are of these lengths, and those of fp32 engines are
  word for word ours. Least share of equal sentences in any row: {agreement}.
- Share of peak: FLOPs that the task needs (see `Size.decoding_flops`, {cost:.2f} GFLOP an output
  token at base, beam 4, 25 words) per second, over the best GEMM of that precision in this run."""

RATIOS = [
    (OURS["fp32"], FLOAT32),
    (OURS["bf16"], FLOAT32),
    (OURS["int8"], INT8),
    (OURS["bf16"], INT8),
    (OURS["fp32"], "MarianMT fp32"),
    (OURS["bf16"], "MarianMT bf16"),
    (OURS["fp32"], "pipeline 4.57 fp32"),
    (OURS["bf16"], "pipeline 4.57 bf16"),
    ("our pipeline fp32", "pipeline 4.57 fp32"),
    ("our pipeline bf16", "pipeline 4.57 bf16"),
]


@dataclass(frozen=True)
class Findings:
    """Everything one run found out."""

    machine: str
    command: str
    lengths: str
    gemm_peaks: dict[int, dict[str, float]]  # threads, precision
    comparisons: list[DecodingComparison]


def _describe(cell: Cell) -> list[str]:
    return [
        cell.size,
        TASK_NAMES[cell.task],
        "greedy" if cell.beams == 1 else f"beam {cell.beams}",
        str(cell.threads),
        str(cell.batch),
    ]


HEADER = ["size", "targets", "search", "threads", "batch"]


def speed_line(comparison: DecodingComparison) -> str:
    """Say in one line how fast everybody was."""
    speeds = (
        f"{name} {comparison.tokens_per_second(name):,.0f}" for name in comparison.contestants
    )
    return f"{' '.join(_describe(comparison.cell))}: {', '.join(speeds)}"


def speed_table(comparisons: list[DecodingComparison]) -> str:
    """Write everybody's tokens a second."""
    names = comparisons[0].contestants
    rows = [
        [*_describe(one.cell), *(f"{one.tokens_per_second(name):,.0f}" for name in names)]
        for one in comparisons
    ]
    return table([*HEADER, *names], rows)


def ratio_table(findings: Findings) -> str:
    """Write how many times faster ours is, and its share of the machine's best."""
    names = findings.comparisons[0].contestants
    ratios = [(name, other) for name, other in RATIOS if name in names and other in names]
    shares = [(dtype, OURS[dtype]) for dtype in ("fp32", "bf16") if OURS[dtype] in names]
    header = [*HEADER, *(f"{name} / {other}" for name, other in ratios)]
    header += [f"peak share, {name}" for _, name in shares]
    rows = []
    for one in findings.comparisons:
        peaks = findings.gemm_peaks[one.cell.threads]
        row = [f"{one.ratio(name, other):.2f}" for name, other in ratios]
        row += [f"{one.flops_per_second(name) / peaks[dtype]:.0%}" for dtype, name in shares]
        rows.append([*_describe(one.cell), *row])
    return table(header, rows)


def bar_table(comparisons: list[DecodingComparison]) -> str:
    """Write the bars beside what was reached."""
    rows = [
        [
            *_describe(one.cell),
            f"{bar.ours} / {bar.other}",
            f"{ratio:.2f}",
            f"{bar.times:.1f}",
            verdict(ratio, bar.times),
        ]
        for one, bar, ratio in judge(comparisons)
    ]
    return table([*HEADER, "ratio of", "ratio", "at least", "so"], rows)


def settings_table(comparisons: list[DecodingComparison]) -> str:
    """Write the settings that CTranslate2 was best with."""
    rows = [
        [
            *_describe(one.cell),
            name,
            f"{chosen['inter_threads']} x {chosen['intra_threads']}",
            str(chosen["max_batch_size"] or "whole"),
        ]
        for one in comparisons
        for name, chosen in one.settings.items()
    ]
    return table([*HEADER, "contestant", "workers x threads", "sentences at once"], rows)


def _least_agreement(comparisons: Iterable[DecodingComparison]) -> str:
    shares: dict[str, float] = {}
    for one in comparisons:
        for name, share in one.agreement.items():
            shares[name] = min(share, shares.get(name, 1.0))
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items())


def write_report(findings: Findings) -> str:
    """Write the whole section, without its markers."""
    comparisons = findings.comparisons
    sizes = dict.fromkeys(one.cell.size for one in comparisons)
    peaks = "; ".join(
        f"{dtype}, {threads} thread{'s' * (threads > 1)}: {speed / GIGA:.0f}"
        for threads, speeds in findings.gemm_peaks.items()
        for dtype, speed in speeds.items()
    )
    explanation = EXPLANATION.format(
        vocabularies=", ".join(f"{SIZES[name].vocab_size:,} ({name})" for name in sizes),
        lengths=findings.lengths,
        agreement=_least_agreement(comparisons),
        cost=SIZES["base"].decoding_flops([Pair(24, 25)], 4) / 25 / GIGA,
    )
    parts = ["## Decoding speed", f"{findings.machine}.", f"`{findings.command}`", explanation]
    parts += [f"Measured GEMM peaks in GFLOP/s: {peaks}.", speed_table(comparisons)]
    parts += ["How many times faster ours is:", ratio_table(findings)]
    if any(judge(comparisons)):
        parts += ["The bars set for ours:", bar_table(comparisons)]
    return "\n\n".join([*parts, "CTranslate2's settings:", settings_table(comparisons)])
