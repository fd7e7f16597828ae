"""Several engines translate the same sentences in turn, and their clocks say how long it took."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from benchmarks.comparison import Round
from benchmarks.contestants import SIZES
from benchmarks.decoding_tasks import Task, cut_at_end, make_task, right_lengths
from benchmarks.engine_process import EngineProcess, Sentences

CTRANSLATE2 = "engine_ctranslate2.py"
SLOW = 12.0  # seconds: whoever takes longer is timed once, in the first turn, not warmed up
PAUSE = 0.3  # seconds before a turn at 2 threads: OpenMP's threads wait busily for so long
LEAST_AGREEMENT, LEAST_RIGHT_LENGTHS = 0.9, 0.95
EXACT = "fp32", "float32"  # the precisions whose words must be the same

Settings = dict[str, int]


@dataclass(frozen=True)
class Cell:
    """What is compared."""

    size: str
    task: str
    batch: int
    beams: int
    threads: int


@dataclass(frozen=True)
class DecodingComparison:
    """All rounds of a cell, shares of equal sentences, and the settings chosen for CTranslate2."""

    cell: Cell
    rounds: list[Round]
    agreement: dict[str, float]
    settings: dict[str, Settings]

    @property
    def contestants(self) -> list[str]:
        return list(self.agreement)

    def tokens_per_second(self, name: str) -> float:
        """Return the median over rounds."""
        return statistics.median(
            sum(pair.target for pair in one.pairs) / one.seconds[name]
            for one in self.rounds
            if name in one.seconds
        )

    def ratio(self, name: str, other: str) -> float:
        """Say how many times faster `name` is than `other`: the median over rounds of both."""
        return statistics.median(
            one.seconds[other] / one.seconds[name]
            for one in self.rounds
            if name in one.seconds and other in one.seconds
        )

    def flops_per_second(self, name: str) -> float:
        """Count what the task needs a second, padding and waste left out."""
        size, speeds = SIZES[self.cell.size], []
        for one in self.rounds:
            if name in one.seconds:
                flops = size.decoding_flops(one.pairs, self.cell.beams)
                speeds.append(flops / one.seconds[name])
        return statistics.median(speeds)


def settings_to_try(script: str, cell: Cell) -> list[Settings]:
    """All ways worth trying to share threads and cut a batch; only CTranslate2 has a choice."""
    if script != CTRANSLATE2:
        return [{}]
    workers = [1] if cell.batch == 1 else [one for one in (1, 2) if one <= cell.threads]
    tried = []
    for inter, size in product(workers, (0, 16, 32, 64)):
        if size < cell.batch and (inter == 1 or size):
            tried.append(
                {
                    "inter_threads": inter,
                    "intra_threads": cell.threads // inter,
                    "max_batch_size": size,
                }
            )
    return tried


class Contest:
    """The engines' contest in one cell."""

    def __init__(self, engines: list[EngineProcess], cell: Cell, lengths: list[int]) -> None:
        self.cell, self.lengths = cell, lengths
        self.engines = {name: engine for engine in engines for name in engine.contestants}
        self.settings: dict[str, Settings] = {}
        self.first: dict[str, float] = {}  # seconds of everybody's first turn, on the first task

    def make_task(self, seed: int) -> Task:
        vocab_size = SIZES[self.cell.size].vocab_size
        return make_task(self.cell.task, self.lengths, self.cell.batch, vocab_size, seed)

    def turn(self, name: str, task: Task, settings: Settings) -> tuple[float, list[Sentences]]:
        """Let one translate."""
        if self.cell.threads > 1:
            time.sleep(PAUSE)
        return self.engines[name].translate(
            name, task.batches, self.cell.beams, task.limit, settings
        )

    def warm_up(self) -> dict[str, float]:
        """Choose settings, check lengths and words; return the agreement with the first."""
        task, written = self.make_task(0), {}
        for name, engine in self.engines.items():
            choices = settings_to_try(engine.script, self.cell)
            seconds, outputs = self.turn(name, task, choices[0])
            tried = [self.turn(name, task, one)[0] for one in choices if len(choices) > 1]
            self.first[name] = min(tried, default=seconds)
            self.settings[name] = choices[tried.index(min(tried))] if tried else choices[0]
            right = right_lengths(task, outputs)
            if right < LEAST_RIGHT_LENGTHS:
                raise ValueError(
                    f"{name} must write targets of the task's lengths: {right:.0%} do."
                )
            written[name] = [cut_at_end(one) for batch in outputs for one in batch]
        return _agreement(written)

    def run(self, is_enough: Callable[[list[Round]], bool]) -> DecodingComparison:
        """Check and warm up, then let all take turns until the rounds are enough."""
        agreement = self.warm_up()
        rounds: list[Round] = []
        slow = {name: spent for name, spent in self.first.items() if spent > SLOW}
        names = [name for name in self.engines if name not in slow]
        while not is_enough(rounds):
            task = self.make_task(len(rounds))
            seconds = {name: self.turn(name, task, self.settings[name])[0] for name in names}
            rounds.append(Round(task.pairs, seconds if rounds else seconds | slow))
        chosen = {name: one for name, one in self.settings.items() if one}
        return DecodingComparison(self.cell, rounds, agreement, chosen)


def _agreement(written: dict[str, Sentences]) -> dict[str, float]:
    """Say which share of sentences equals the first contestant's; exact engines must agree."""
    reference = next(iter(written.values()))
    shares = {}
    for name, sentences in written.items():
        same = sum(one == other for one, other in zip(sentences, reference, strict=True))
        shares[name] = same / len(reference)
        if name.endswith(EXACT) and shares[name] < LEAST_AGREEMENT:
            raise ValueError(
                f"{name} must write the words of {next(iter(written))}, got {shares[name]:.0%} of "
                "the sentences: speeds would compare different searches."
            )
    return shares
