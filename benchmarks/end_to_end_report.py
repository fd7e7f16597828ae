"""The tables of an end-to-end run."""

import statistics
from dataclasses import dataclass

from benchmarks.end_to_end_loops import LOOPS, OURS, REFERENCES
from benchmarks.end_to_end_task import Prepared
from benchmarks.results import table
from benchmarks.turns import Turn

GIGA = 1e9
BARS = {"fp32": 2.2, "bf16": 1.8}  # times the fastest of REFERENCES
INPUT_BAR = 0.03

EXPLANATION = """\
- Whole loops as their users run them: loader, collator, forward, backward, optimizer, schedule,
  logging; ours is training/train.py, between two evaluations. One thread, CPU time, each in a
  process of its own, in turns of at least {tokens:,} target tokens, after {warm_up:,} not timed.
- Multi30k en-de, lower-cased and tokenized, a joint BPE of {vocabulary:,} words learned by
  tokenizer/train.py; dropout 0.3, label smoothing 0.1, Adam, the same schedule. Ours fills batches
  up to 4,096 tokens a side ({padding:.1%} padding), on average {sentences} sentences and
  {batch:,.0f} target tokens; Trainer and JoeyNMT get as many sentences, eole 4,096 tokens.
- Target tokens are real ones, the end of a sentence included. Speed: the median of the turns.
  Ours / it: the ratio of medians. Share of peak: the arithmetic that the task needs without
  padding, over the best GEMM of that precision in the same run (GFLOP/s: {peaks}).
- Seq2SeqTrainer trains MarianMT: sentences grouped by the longer side, fused AdamW, no clipping, no
  logging, no workers, and `label_smoothing_factor`, except *unsmoothed*: MarianMT's own loss, which
  is less work. bf16 is `model.to(bfloat16)`, weights and moments too; *autocast* is `bf16=True`.
  Ours keeps float32 weights. *Memory kept*: two variables of the environment (MALLOC_MMAP_MAX_,
  MALLOC_TRIM_THRESHOLD_) tell glibc to keep what is freed, as our loop does by itself; Trainer has
  no such setting, and here it is eager. JoeyNMT drops inside attention and feed-forward too, sorts
  by no length, and has no bf16 on CPUs.
- Loss: of a target token, the mean of the first and of the last turn; all learn from equally many
  tokens, but not from the same random weights."""


@dataclass(frozen=True)
class Contest:
    """All turns of one size and precision."""

    size: str
    precision: str
    turns: dict[str, list[Turn]]
    flops: float  # that a target token needs
    peak: float  # FLOP/s of the best GEMM

    def tokens_per_second(self, name: str) -> float:
        """Take the median of the turns."""
        return statistics.median(one.target_tokens / one.seconds for one in self.turns[name])

    def ratio(self, name: str) -> float:
        """Say how many times faster ours is."""
        return self.tokens_per_second(OURS) / self.tokens_per_second(name)

    def peak_share(self, name: str) -> float:
        """Say which part of the GEMM peak the arithmetic of the task amounts to."""
        return self.tokens_per_second(name) * self.flops / self.peak

    def input_share(self) -> float:
        """Say which part of our time goes into making batches and logging."""
        ours = self.turns[OURS]
        return sum(one.input_seconds for one in ours) / sum(one.seconds for one in ours)

    def references(self) -> list[str]:
        """Name the fastest of each group that the bars are for."""
        groups = ([name for name in group if name in self.turns] for group in REFERENCES)
        return [max(present, key=self.tokens_per_second) for present in groups if present]


@dataclass(frozen=True)
class Findings:
    """Everything one run found out."""

    machine: str
    command: str
    prepared: Prepared
    tokens: int  # of a turn
    warm_up: int
    peaks: dict[str, float]
    contests: list[Contest]
    absent: list[str]


def turn_line(size: str, precision: str, name: str, turn: Turn) -> str:
    """Write a turn as it comes."""
    speed = turn.target_tokens / turn.seconds
    return f"{size} {precision} {name}: {speed:,.0f} tokens/s, loss {turn.loss:.3f}"


def speed_table(contests: list[Contest]) -> str:
    """Write one row for every loop."""
    header = ["size", "precision", "loop", "target tokens/s", "slowest to fastest turn"]
    header += ["ours / it", "share of peak", "first loss", "last loss"]
    return table(header, [_row(one, name) for one in contests for name in one.turns])


def _row(contest: Contest, name: str) -> list[str]:
    turns = contest.turns[name]
    speeds = [one.target_tokens / one.seconds for one in turns]
    return [
        contest.size,
        contest.precision,
        name,
        f"{contest.tokens_per_second(name):,.0f}",
        f"{min(speeds):,.0f} to {max(speeds):,.0f}",
        f"{contest.ratio(name):.2f}" if OURS in contest.turns else "",
        f"{contest.peak_share(name):.0%}",
        f"{turns[0].loss:.2f}",
        f"{turns[-1].loss:.2f}",
    ]


def bar_table(contests: list[Contest]) -> str:
    """Write how far we are above the bars, or below."""
    header = ["size", "precision", "fastest that trains as ours", "ours / it", "bar"]
    header += ["loading and logging, ours", "bar"]
    rows = []
    for one in contests:
        for name in one.references() if OURS in one.turns else ():
            ratio, share = one.ratio(name), one.input_share()
            bar = _judged(ratio >= BARS[one.precision], f"{BARS[one.precision]}")
            input_bar = _judged(share < INPUT_BAR, f"below {INPUT_BAR:.0%}")
            row = [one.size, one.precision, name, f"{ratio:.2f}", bar, f"{share:.1%}", input_bar]
            rows.append(row)
    return table(header, rows)


def _judged(is_met: bool, bar: str) -> str:
    return f"{bar}: {'met' if is_met else 'missed'}"


def write_report(findings: Findings) -> str:
    """Write the whole section, without its markers."""
    prepared = findings.prepared
    peaks = ", ".join(f"{name} {speed / GIGA:.0f}" for name, speed in findings.peaks.items())
    parts = [
        "## Training, end to end",
        f"{findings.machine}.",
        f"`{findings.command}`",
        EXPLANATION.format(
            tokens=findings.tokens,
            warm_up=findings.warm_up,
            vocabulary=prepared.vocab_size,
            padding=prepared.padding,
            sentences=prepared.sentences_per_batch,
            batch=prepared.target_tokens_per_batch,
            peaks=peaks,
        ),
        bar_table(findings.contests),
        speed_table(findings.contests),
    ]
    parts += [
        f"{name}: not installed. Make an environment with it and torch, and name its Python: "
        f"`--{LOOPS[name].library}-python PATH`."
        for name in findings.absent
    ]
    return "\n\n".join(parts)
