"""How a measure grows with the length of a sentence, and where two of them meet."""

import math
from collections.abc import Sequence
from itertools import pairwise

Points = Sequence[tuple[int, float]]  # length and measure, by rising length


def exponent(points: Points) -> float:
    """The slope of the line through the logarithms: lengths 1, 2, 4 with 3, 12, 48 -> 2.0."""
    across, up = zip(
        *((math.log(length), math.log(value)) for length, value in points), strict=True
    )
    middle, height = math.fsum(across) / len(across), math.fsum(up) / len(up)
    covariance = math.fsum((x - middle) * (y - height) for x, y in zip(across, up, strict=True))
    return covariance / math.fsum((x - middle) ** 2 for x in across)


def over_line(points: Points) -> float:
    """The last measure over what the line through the two before it says."""
    (first, low), (second, high), (last, found) = points[-3:]
    return found / (high + (high - low) * (last - second) / (second - first))


def crossing(ours: Points, others: Points) -> float | None:
    """The length from which on ours is the larger, between two lengths on a line of logarithms.

    The first length where it always is; None where it is the smaller at the end.
    """
    gaps = [
        (math.log(length), math.log(mine / theirs))
        for (length, mine), (_, theirs) in zip(ours, others, strict=True)
    ]
    if gaps[-1][1] <= 0:
        return None
    for (left, below), (right, above) in reversed(list(pairwise(gaps))):
        if below <= 0:
            return math.exp(left - below * (right - left) / (above - below))
    return math.exp(gaps[0][0])
