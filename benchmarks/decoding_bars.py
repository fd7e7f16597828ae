"""How fast our decoding wants to be, and whether it is."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.decoding_comparison import DecodingComparison

OURS = {"fp32": "ours fp32", "bf16": "ours bf16", "int8": "ours int8"}
FLOAT32, INT8 = "CTranslate2 float32", "CTranslate2 int8"


@dataclass(frozen=True)
class Bar:
    """Our speed at a precision must be at least so many times another contestant's."""

    ours: str
    other: str
    times: float
    size: str
    threads: int
    beams: tuple[int, ...]
    batches: tuple[int, ...]

    def concerns(self, comparison: DecodingComparison) -> bool:
        """Whether the bar is about this cell and its two contestants took part."""
        cell = comparison.cell
        return (
            (cell.size, cell.threads) == (self.size, self.threads)
            and cell.beams in self.beams
            and cell.batch in self.batches
            and {self.ours, self.other} <= set(comparison.contestants)
        )


BARS = [
    Bar(OURS["fp32"], FLOAT32, 1.1, "base", 1, (4,), (1, 32)),
    Bar(OURS["bf16"], FLOAT32, 1.7, "base", 1, (4,), (1, 32, 128)),
    Bar(OURS["int8"], INT8, 1.5, "base", 1, (1, 4), (1,)),
    Bar(OURS["int8"], INT8, 1.0, "base", 1, (1, 4), (32, 128)),
    Bar(OURS["fp32"], FLOAT32, 1.0, "base", 1, (1,), (1, 32)),
    Bar(OURS["bf16"], FLOAT32, 1.6, "base", 1, (1,), (1, 32, 128)),
    Bar(OURS["fp32"], FLOAT32, 1.0, "small", 1, (1, 4), (1, 32)),
    Bar(OURS["bf16"], FLOAT32, 1.4, "small", 1, (1, 4), (1, 32, 128)),
    Bar(OURS["fp32"], FLOAT32, 1.1, "base", 2, (1, 4), (32, 128)),
    Bar(OURS["bf16"], FLOAT32, 1.6, "base", 2, (1, 4), (32, 128)),
    Bar(OURS["int8"], INT8, 0.9, "base", 2, (1, 4), (32, 128)),
    Bar(OURS["fp32"], "MarianMT fp32", 2.5, "base", 1, (4,), (1,)),
    Bar(OURS["fp32"], "MarianMT fp32", 3.0, "base", 1, (4,), (32,)),
    Bar(OURS["bf16"], "MarianMT bf16", 2.0, "base", 1, (4,), (1,)),
    Bar(OURS["bf16"], "MarianMT bf16", 2.4, "base", 1, (4,), (32,)),
]


def verdict(ratio: float, bar: float) -> str:
    """Say whether a ratio reaches its bar: (1.2, 1.1) -> met, (0.99, 1.1) -> missed by 10.0%."""
    return "met" if ratio >= bar else f"missed by {1 - ratio / bar:.1%}"


def judge(comparisons: list[DecodingComparison]) -> Iterator[tuple[DecodingComparison, Bar, float]]:
    """Pair each bar with every cell that it is about, and our ratio there."""
    for bar in BARS:
        for one in comparisons:
            if bar.concerns(one):
                yield one, bar, one.ratio(bar.ours, bar.other)
