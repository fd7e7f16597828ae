"""How much memory a training step needs: every contestant in a process of its own.

The figure is the high-water mark of the resident set after two steps minus the mark just before
the model is built, when the libraries are loaded: weights, gradients, AdamW's two moments and
everything a step holds in between.
"""

from dataclasses import dataclass

import torch

from benchmarks.batches import Pair, collate, make_sentences
from benchmarks.comparison import Trainee
from benchmarks.contestants import SIZES
from benchmarks.machine import high_water_mark, run_alone

STEPS = 2  # AdamW makes its moments in the first


@dataclass(frozen=True)
class MemoryPeaks:
    """Peak bytes of every contestant at one size, precision and kind of batches."""

    size: str
    dtype: str
    batches: str
    peak_bytes: dict[str, int]


def training_peak(name: str, size: str, dtype: str, batches: list[list[Pair]], threads: int) -> int:
    """Train two steps in this process and return the bytes they added to its peak."""
    torch.set_num_threads(threads)
    inputs = [collate(make_sentences(pairs, SIZES[size].vocab_size)) for pairs in batches]
    before = high_water_mark()
    trainee = Trainee(name, size, dtype)
    for batch in inputs[:STEPS]:
        trainee.step(batch)
    return high_water_mark() - before


def compare_memory(
    names: list[str], size: str, dtype: str, kind: str, batches: list[list[Pair]], threads: int
) -> MemoryPeaks:
    """Measure every contestant in a fresh process."""
    peaks = {
        name: run_alone(training_peak, name, size, dtype, batches[:STEPS], threads)
        for name in names
    }
    return MemoryPeaks(size, dtype, kind, peaks)
