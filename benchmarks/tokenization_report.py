"""Writes what the tokenizer benchmark found: the bars first, then the tables behind them."""

from dataclasses import dataclass

from benchmarks.results import table
from benchmarks.tokenization_contestants import CONTESTANTS, OURS, REFERENCE
from benchmarks.tokenization_splits import Speeds, Splits, token_ratio
from benchmarks.tokenization_text import HARD_STRINGS
from benchmarks.tokenization_training import Training

MEBIBYTE, GIGABYTE = 2**20, 10**9

EXPLANATION = """\
- Text: {num_pairs:,} pairs of Tatoeba and Europarl, English and German in one vocabulary of
  {size:,} entries, special tokens included; MarianTokenizer adds a `<pad>` to sentencepiece's.
  {files} validation files, {sentences:,} sentences, are split.
- Training: wall time from files to files on all cores; the best of so many rounds in turns.
  subword-nmt is pure Python, fed with counted words (its fastest way), and learns once. Memory is
  the peak of a fresh process above its level after imports, the largest of the rounds.
- Splitting: the median of {split_rounds} round(s) in turns, each at least {seconds:g} s over the
  same sentences in batches of 1,000, so the word caches of ours and of subword-nmt are warm. One
  thread is timed by CPU time, more by wall time. MarianTokenizer and subword-nmt have only one.
- Tokens: each sentence has one end token, also where the tokenizer adds none. subword-nmt splits
  at blanks only and has no bytes or unknown token: what it never saw stays a token of its own.
- The hard strings hold blanks in a row, other white space, look-alikes, other scripts, and text
  like `</s>`."""


@dataclass(frozen=True)
class Findings:
    """Everything a run found out."""

    machine: str
    command: str
    vocabulary_size: int
    num_pairs: int
    split_rounds: int
    seconds: float
    sentences: dict[tuple[str, str], int]
    trainings: list[Training]
    speeds: list[Speeds]
    splits: dict[str, Splits]


@dataclass(frozen=True)
class Bar:
    """A promise and what came of it."""

    what: str
    wanted: float
    found: float
    is_least: bool = True
    unit: str = " times"

    def row(self) -> list[str]:
        wanted = f"at {'least' if self.is_least else 'most'} {self.wanted:g}{self.unit}"
        return [self.what, wanted, self.verdict, f"{self.found:.3g}{self.unit}"]

    @property
    def verdict(self) -> str:
        shortfall = self.wanted / self.found if self.is_least else self.found / self.wanted
        return "met" if shortfall <= 1 else f"missed by a factor of {shortfall:.2f}"


def find_bars(findings: Findings) -> list[Bar]:
    """The bars of training, memory, encoding and tokens."""
    ours = findings.trainings[0]
    bars = [
        Bar(f"training time of {one.version} over ours", 5, one.seconds / ours.seconds)
        for one in findings.trainings
        if one.name.startswith("sentencepiece")
    ]
    peaks = [one.peak_bytes for one in findings.trainings if one.name.startswith(OURS)]
    bars.append(Bar("peak memory of our training", 2, max(peaks) / GIGABYTE, False, " GB"))
    bars += [
        Bar(f"encoding, {_threads(one)}, ours over {REFERENCE}", 3, one.ratio(OURS))
        for one in findings.speeds
        if one.work == "encode"
    ]
    ratio = token_ratio(findings.splits)
    return [*bars, Bar(f"tokens a sentence, ours over {REFERENCE}", 1.03, ratio, False)]


def _threads(speeds: Speeds) -> str:
    return f"{speeds.threads} thread{'s' * (speeds.threads > 1)}"


def bar_table(bars: list[Bar]) -> str:
    """Write a row for each bar, with its verdict."""
    return table(["bar", "wanted", "verdict", "found"], (bar.row() for bar in bars))


def training_table(trainings: list[Training]) -> str:
    """Write a row for each learner."""
    header = ["tokenizer", "version", "reads", "rounds", "seconds", "time / ours", "peak, MiB"]
    ours = trainings[0].seconds
    rows = []
    for one in trainings:
        figures = [f"{one.seconds:.1f}", f"{one.seconds / ours:.2f}"]
        peak = f"{one.peak_bytes / MEBIBYTE:,.0f}"
        rows.append([one.name, one.version, one.reads, str(len(one.runs)), *figures, peak])
    return table(header, rows)


def speed_table(speeds: list[Speeds]) -> str:
    """Write a row for each work, number of threads and contestant."""
    rows = [
        [one.work, _threads(one), name, f"{one.of(name):,.0f}", f"{one.ratio(name):.2f}"]
        for one in speeds
        for name in CONTESTANTS
    ]
    header = ["work", "threads", "tokenizer", "sentences/s", f"speed / {REFERENCE}"]
    return table(header, rows)


def token_table(splits: dict[str, Splits], sentences: dict[tuple[str, str], int]) -> str:
    """Write the tokens a sentence of each validation file, and of all together."""
    groups = {key: [key] for key in sentences} | {("all", "both"): list(sentences)}
    rows = []
    for (corpus, language), keys in groups.items():
        total = sum(sentences[key] for key in keys)
        tokens = {name: sum(one.tokens[key] for key in keys) for name, one in splits.items()}
        means = [f"{count / total:.2f}" for count in tokens.values()]
        ratio = f"{tokens[OURS] / tokens[REFERENCE]:.3f}"
        rows.append([corpus, language, f"{total:,}", *means, ratio])
    return table(["corpus", "language", "sentences", *splits, f"ours / {REFERENCE}"], rows)


def round_trip_table(splits: dict[str, Splits], total: int) -> str:
    """Write which part of the texts each contestant gives back as they were."""
    rows = [
        [name, f"{one.exact / total:.2%}", f"{one.hard_exact} of {len(HARD_STRINGS)}"]
        for name, one in splits.items()
    ]
    return table(["tokenizer", "validation sentences unchanged", "hard strings unchanged"], rows)


def write_report(findings: Findings) -> str:
    """Write the whole section, without its markers."""
    total = sum(findings.sentences.values())
    explanation = EXPLANATION.format(
        num_pairs=findings.num_pairs,
        size=findings.vocabulary_size,
        files=len(findings.sentences),
        sentences=total,
        split_rounds=findings.split_rounds,
        seconds=findings.seconds,
    )
    parts = [
        "## Tokenization",
        f"{findings.machine}.",
        f"`{findings.command}`",
        bar_table(find_bars(findings)),
        explanation,
        training_table(findings.trainings),
        speed_table(findings.speeds),
        token_table(findings.splits, findings.sentences),
        round_trip_table(findings.splits, total),
    ]
    return "\n\n".join(parts)
