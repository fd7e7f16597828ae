"""What is translated: sources of random words, and how long the targets are to be.

*fixed*: 18 to 30 words without an end, cut off after 25 words. *varied*: sources as long as the
sentences of newstest2014, with an end, so that the targets end where the sources do (see
`decoding_weights`).
"""

import gzip
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer

from benchmarks.batches import (
    EOS,
    FIRST_WORD,
    LONGEST,
    NEWSTEST,
    SHORTEST,
    Pair,
    sample_lengths,
)
from benchmarks.engine_process import Sentences

FIXED_SOURCES, FIXED_TARGET = (18, 30), 25
ROOM = 50  # beyond the longest source, as the paper has it
FEWEST_SENTENCES = 8  # of a round: at batch 1 it has several batches

TOKENIZER = Path(__file__).resolve().parent.parent / "tokenizer/en-de"


def load_source_lengths(data: Path) -> tuple[list[int], str]:
    """Count the tokens of newstest2014's English sentences, or draw lengths like theirs."""
    path = data / NEWSTEST.format(language="en")
    if not path.is_file():
        lengths = [pair.source for pair in sample_lengths()]
        return lengths, "a gamma law with the moments of newstest2014 en"
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        sentences = [line.rstrip("\n") for line in lines]
    lengths = [len(one) for one in tokenizer(sentences)["input_ids"]]
    return [min(max(length, SHORTEST), LONGEST) for length in lengths], "newstest2014 en"


@dataclass(frozen=True)
class Task:
    """Batches of one round, and how long each of their targets must be, its end included."""

    batches: list[Sentences]
    limit: int
    target_lengths: list[list[int]]

    @property
    def pairs(self) -> list[Pair]:
        return [
            Pair(len(source), target)
            for sentences, targets in zip(self.batches, self.target_lengths, strict=True)
            for source, target in zip(sentences, targets, strict=True)
        ]


def _batch_sizes(batch_size: int) -> list[int]:
    return [batch_size] * max(1, FEWEST_SENTENCES // batch_size)


def make_fixed_task(
    lengths: list[int], batch_size: int, vocab_size: int, generator: random.Random
) -> Task:
    """Sources without an end, targets of 25 words."""
    batches = [
        [
            [generator.randrange(FIRST_WORD, vocab_size) for _ in range(length)]
            for length in generator.choices(range(FIXED_SOURCES[0], FIXED_SOURCES[1] + 1), k=size)
        ]
        for size in _batch_sizes(batch_size)
    ]
    targets = [[FIXED_TARGET] * len(sentences) for sentences in batches]
    return Task(batches, FIXED_TARGET, targets)


def make_varied_task(
    lengths: list[int], batch_size: int, vocab_size: int, generator: random.Random
) -> Task:
    """Sources of real lengths, targets that end by themselves."""
    batches = [
        [
            [*(generator.randrange(FIRST_WORD, vocab_size) for _ in range(length - 1)), EOS]
            for length in generator.sample(lengths, size)
        ]
        for size in _batch_sizes(batch_size)
    ]
    targets = [[len(one) for one in sentences] for sentences in batches]
    return Task(batches, max(map(max, targets)) + ROOM, targets)


TASKS: dict[str, Callable[[list[int], int, int, random.Random], Task]] = {
    "fixed": make_fixed_task,
    "varied": make_varied_task,
}


def make_task(kind: str, lengths: list[int], batch_size: int, vocab_size: int, seed: int) -> Task:
    """Make the task of one round."""
    return TASKS[kind](lengths, batch_size, vocab_size, random.Random(seed))


def cut_at_end(sentence: list[int]) -> list[int]:
    """Leave out what stands behind the end: [17, 2, 0, 0] -> [17, 2]."""
    return sentence[: sentence.index(EOS) + 1] if EOS in sentence else sentence


def right_lengths(task: Task, outputs: list[Sentences]) -> float:
    """Say which share of the targets is as long as it must be."""
    wanted = [length for lengths in task.target_lengths for length in lengths]
    written = [len(cut_at_end(output)) for batch in outputs for output in batch]
    return sum(map(int.__eq__, wanted, written)) / len(wanted)
