"""Time and memory of a layer: a sentence forward, and its gradients back."""

import multiprocessing
import statistics
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import torch

from benchmarks.layer_kinds import build, one_pass
from benchmarks.machine import clock_for, high_water_mark

SHORTEST_TURN = 0.02  # seconds; what is over sooner is repeated
WARM_UP = 16  # words, after which the libraries have what they need
THREADS = 1


@dataclass(frozen=True)
class Measure:
    """What one kind of layer needed for a sentence."""

    kind: str
    width: int
    length: int
    value: float  # seconds, or bytes


def time_layers(
    kinds: Iterable[str], width: int, lengths: Iterable[int], rounds: int
) -> list[Measure]:
    """Let all kinds take turns at all lengths; the median of each one's rounds."""
    torch.set_num_threads(THREADS)
    layers = {kind: build(kind, width) for kind in kinds}
    passes = {
        (kind, length): one_pass(layer, length, width)
        for length in lengths
        for kind, layer in layers.items()
    }
    repeats = {cell: _repeats(go) for cell, go in passes.items()}
    turns: dict[tuple[str, int], list[float]] = {cell: [] for cell in passes}
    for _ in range(rounds):
        for cell, go in passes.items():
            turns[cell].append(_seconds(go, repeats[cell]))
    return [
        Measure(kind, width, length, statistics.median(found))
        for (kind, length), found in turns.items()
    ]


def _repeats(go: Callable[[], None]) -> int:
    """How often a pass fills a turn; the first pass, which warms up, does not count."""
    go()
    return max(1, round(SHORTEST_TURN / max(_seconds(go, 1), 1e-6)))


def _seconds(go: Callable[[], None], times: int) -> float:
    clock = clock_for(THREADS)
    start = clock()
    for _ in range(times):
        go()
    return (clock() - start) / times


def measure_memory(
    kinds: Iterable[str], width: int, lengths: Iterable[int], rounds: int
) -> list[Measure]:
    """The most bytes that each layer adds at once; the median of rounds, each in a process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__])  # libraries are loaded once, and shared
    wanted = [(kind, width, length) for kind in kinds for length in lengths]
    found = []
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as processes:
        for kind, _, length in wanted:
            peaks = processes.map(_peak, *zip(*[(kind, width, length)] * rounds, strict=True))
            found.append(Measure(kind, width, length, statistics.median(peaks)))
    return found


def _peak(kind: str, width: int, length: int) -> int:
    """The bytes that one pass adds to the peak of this process."""
    torch.set_num_threads(THREADS)
    layer = build(kind, width)
    one_pass(layer, WARM_UP, width)()
    before = high_water_mark()
    one_pass(layer, length, width)()
    return high_water_mark() - before
