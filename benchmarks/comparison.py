"""Several models take the same training steps in turn, and the clock says what each step cost.

A training step is forward, backward, a fused AdamW step and `zero_grad`; gradients are not clipped.
"""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.batches import Pair, collate, make_sentences
from benchmarks.contestants import CONTESTANTS, SIZES

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
LEARNING_RATE = 1e-4
FEWEST_ROUNDS, MOST_ROUNDS = 3, 7  # numbers of batches that speak for all: see `make_batches`


@dataclass(frozen=True)
class Setting:
    """What is compared: the loop is our own "plain" one or the library's "Trainer"."""

    size: str
    dtype: str
    batches: str
    threads: int
    loop: str = "plain"


@dataclass(frozen=True)
class Round:
    """One batch, and the seconds every contestant took for it."""

    pairs: list[Pair]
    seconds: dict[str, float]


@dataclass(frozen=True)
class Comparison:
    """All rounds of one setting, and the FLOP/s of the machine's best GEMM at that precision."""

    setting: Setting
    rounds: list[Round]
    gemm_peak: float

    @property
    def contestants(self) -> list[str]:
        return list(self.rounds[0].seconds)

    def _seconds(self, name: str) -> float:
        return sum(one.seconds[name] for one in self.rounds)

    def tokens_per_second(self, name: str) -> float:
        """Count target tokens without padding."""
        tokens = sum(pair.target for one in self.rounds for pair in one.pairs)
        return tokens / self._seconds(name)

    def ratio(self, name: str, other: str) -> float:
        """Say how many times faster `name` is than `other`: the median over rounds."""
        return statistics.median(one.seconds[other] / one.seconds[name] for one in self.rounds)

    def peak_share(self, name: str) -> float:
        """Say which part of the GEMM peak the arithmetic of the task alone amounts to."""
        size = SIZES[self.setting.size]
        flops = sum(size.training_flops(one.pairs) for one in self.rounds)
        return flops / self._seconds(name) / self.gemm_peak


class Trainee:
    """A contestant with its optimizer."""

    def __init__(self, name: str, size: str, dtype: str) -> None:
        torch.manual_seed(0)
        self.model = CONTESTANTS[name](SIZES[size]).to(DTYPES[dtype]).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE, fused=True)

    def step(self, inputs: dict[str, Tensor]) -> None:
        self.model(**inputs).loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def check_precision() -> None:
    """Refuse to time anybody after somebody changed how the others multiply."""
    precision = torch.get_float32_matmul_precision()
    if precision != "highest":
        raise RuntimeError(
            f"float32_matmul_precision must stay 'highest', got {precision!r}: a contestant set it "
            "for the whole process, so it would speed up the others too."
        )


def time_rounds(
    trainees: dict[str, Trainee],
    batches: Iterable[list[Pair]],
    vocab_size: int,
    clock: Callable[[], float],
    is_enough: Callable[[list[Round]], bool],
) -> list[Round]:
    """Let all take the same step, batch after batch, until the rounds are enough."""
    rounds: list[Round] = []
    for pairs in batches:
        inputs = collate(make_sentences(pairs, vocab_size))
        seconds = {}
        for name, trainee in trainees.items():
            check_precision()
            start = clock()
            trainee.step(inputs)
            seconds[name] = clock() - start
        rounds.append(Round(pairs, seconds))
        if is_enough(rounds):
            break
    return rounds


def enough_after(rounds: int | None, seconds: float) -> Callable[[list[Round]], bool]:
    """Stop after so many rounds; without a number after 3 if these took so long, else after 7."""

    def is_enough(done: list[Round]) -> bool:
        if rounds is not None:
            return len(done) >= rounds
        spent = sum(sum(one.seconds.values()) for one in done)
        is_slow = len(done) == FEWEST_ROUNDS and spent >= seconds
        return is_slow or len(done) >= MOST_ROUNDS

    return is_enough
