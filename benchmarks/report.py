"""The tables of a training run."""

from dataclasses import dataclass, replace

from benchmarks.comparison import Comparison, Setting
from benchmarks.contestants import OURS, REFERENCE, SIZES
from benchmarks.memory import MemoryPeaks
from benchmarks.results import table
from benchmarks.trainer_step import TURNS

GIGA = 1e9
MEBIBYTE = 2**20
BATCH_NAMES = {"random": "32 random", "bucketed": "4,096 tokens"}

EXPLANATION = """\
- Step: forward, backward, fused AdamW, `zero_grad`. Rounds are interleaved on the same batches,
  warm-up excluded; speeds are totals over all rounds, ratios medians of the rounds'. Ranked by
  their longest sentence, the batches timed are the middle one, the quartiles, then the eighths.
- One thread is timed by CPU time, two by wall time, each in a process of its own.
- Target tokens leave out padding; vocabulary: {vocabularies}, shared and tied.
- Lengths: {lengths}. *32 random*: random batches of 32 sentences ({real_random:.0%} real tokens).
  *4,096 tokens*: pairs of like length, padding counted ({real_bucketed:.0%} real tokens).
- All contestants use dropout 0.1 as in the paper, 5.4. MarianMT's own loss is plain cross-entropy;
  ours and torch.nn's smooth the labels by 0.1.
- Share of peak: FLOPs that the task needs (see `Size.training_flops`; no padding, projection and
  attention scores included) per second, over the best GEMM of that precision in the same run.
- Equal work: our loss in fp32, and all gradients (with GELU for ReLU, whose own jump at zero),
  differ from those of the padded MarianMT with the same weights by at most {difference:.1e}."""

TRAINER_EXPLANATION = """\
The same inside `transformers.Trainer`, between the ends of two steps: loader, padding collator,
forward, backward, clipping to norm 1, fused AdamW, callbacks. Here bf16 is `bf16=True`, autocast
over fp32 weights, for everybody."""
MEMORY_EXPLANATION = """\
Peak memory of two training steps, every contestant in a fresh process: the resident set's
high-water mark minus its level just before the model is built."""


@dataclass(frozen=True)
class Findings:
    """Everything one run found out."""

    machine: str
    command: str
    lengths: str
    real_shares: dict[str, float]
    difference: float
    gemm_peaks: dict[int, dict[str, dict[str, float]]]  # threads, precision, way to multiply
    comparisons: list[Comparison]
    memory: list[MemoryPeaks]

    @property
    def plain(self) -> list[Comparison]:
        return [one for one in self.comparisons if one.setting.loop == "plain"]

    @property
    def in_trainer(self) -> list[Comparison]:
        return [one for one in self.comparisons if one.setting.loop == "Trainer"]


def _describe(setting: Setting) -> list[str]:
    return [setting.size, setting.dtype, BATCH_NAMES[setting.batches], str(setting.threads)]


def speed_row(comparison: Comparison) -> list[str]:
    """Write speeds, how much faster ours is than each other, and shares of the peak."""
    names = comparison.contestants
    shares = (f"{comparison.peak_share(name):.0%}" for name in (OURS, REFERENCE))
    return [
        *_describe(comparison.setting),
        *(f"{comparison.tokens_per_second(name):,.0f}" for name in names),
        *(f"{comparison.ratio(OURS, name):.2f}" for name in names if name != OURS),
        *shares,
        str(len(comparison.rounds)),
    ]


def speed_table(comparisons: list[Comparison]) -> str:
    """Write one row for every comparison in the plain loop."""
    names = comparisons[0].contestants
    header = ["size", "precision", "batches", "threads"]
    header += [f"{name}, tokens/s" for name in names]
    header += [f"ours / {name}" for name in names if name != OURS]
    header += ["peak share, ours", f"peak share, {REFERENCE}", "rounds"]
    return table(header, map(speed_row, comparisons))


def trainer_table(comparisons: list[Comparison], plain: list[Comparison]) -> str:
    """Write the ratio inside Trainer, and its share of the plain ratio on the same batches."""
    plain_ratios = {
        replace(one.setting, loop="Trainer"): replace(one, rounds=one.rounds[:TURNS]).ratio(
            OURS, REFERENCE
        )
        for one in plain
    }
    header = ["size", "precision", "batches", "threads"]
    header += [f"{name}, tokens/s" for name in comparisons[0].contestants]
    header += [f"ours / {REFERENCE}", "share of the plain ratio"]
    rows = []
    for one in comparisons:
        ratio = one.ratio(OURS, REFERENCE)
        speeds = [f"{one.tokens_per_second(name):,.0f}" for name in one.contestants]
        share = ratio / plain_ratios[one.setting]
        rows.append([*_describe(one.setting), *speeds, f"{ratio:.2f}", f"{share:.2f}"])
    return table(header, rows)


def memory_table(memory: list[MemoryPeaks]) -> str:
    """Write one row for every precision and kind of batches."""
    names = list(memory[0].peak_bytes)
    header = ["size", "precision", "batches", *(f"{name}, MiB" for name in names)]
    rows = []
    for one in memory:
        peaks = [f"{one.peak_bytes[name] / MEBIBYTE:,.0f}" for name in names]
        ratio = one.peak_bytes[OURS] / one.peak_bytes[REFERENCE]
        rows.append([one.size, one.dtype, BATCH_NAMES[one.batches], *peaks, f"{ratio:.2f}"])
    return table([*header, f"ours / {REFERENCE}"], rows)


def _peaks(findings: Findings) -> str:
    lines = [
        f"{dtype}, {threads} thread{'s' * (threads > 1)}: "
        + ", ".join(f"{name} {speed / GIGA:.0f}" for name, speed in ways.items())
        for threads, dtypes in findings.gemm_peaks.items()
        for dtype, ways in dtypes.items()
    ]
    return "Measured GEMM peaks in GFLOP/s: " + "; ".join(lines) + "."


def write_report(findings: Findings) -> str:
    """Write the whole section, without its markers."""
    sizes = {one.setting.size for one in findings.comparisons}
    vocabularies = ", ".join(
        f"{size.vocab_size:,} ({name})" for name, size in SIZES.items() if name in sizes
    )
    parts = [
        "## Training speed",
        f"{findings.machine}.",
        f"`{findings.command}`",
        EXPLANATION.format(
            vocabularies=vocabularies,
            lengths=findings.lengths,
            real_random=findings.real_shares["random"],
            real_bucketed=findings.real_shares["bucketed"],
            difference=findings.difference,
        ),
        _peaks(findings),
        speed_table(findings.plain),
    ]
    if findings.in_trainer:
        parts += [TRAINER_EXPLANATION, trainer_table(findings.in_trainer, findings.plain)]
    if findings.memory:
        parts += [MEMORY_EXPLANATION, memory_table(findings.memory)]
    return "\n\n".join(parts)
