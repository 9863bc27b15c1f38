"""Pairs of runs in the order alone, recorded, recorded, alone; and the arithmetic on the pairs' ratios.

Nothing here assumes how ratios scatter: medians and their intervals are ranks.
"""

import math
import statistics
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """An interval that holds the true median with this confidence, at least `CONFIDENCE`."""

    low: float
    high: float
    confidence: float


def rank(count):
    """The largest k for which the k-th least and the k-th greatest of `count` values hold the true median with enough confidence, and
    that confidence: 1 - 2 P(B < k), with B binomial for `count` tosses of a coin. `None` below six values."""
    best = None
    below = 0
    for k in range(1, count // 2 + 1):
        below += math.comb(count, k - 1)
        confidence = 1 - 2 * below / 2**count
        if confidence < CONFIDENCE:
            break
        best = (k, confidence)
    return best


def interval(values):
    """The interval around the median by ranks; `None` where there are too few values."""
    at = rank(len(values))
    if at is None:
        return None
    k, confidence = at
    ordered = sorted(values)
    return Interval(ordered[k - 1], ordered[-k], confidence)


@dataclass(frozen=True)
class Comparison:
    """Ratios of pairs, their median and its interval."""

    median: float
    interval: Interval | None
    pairs: int


def compare(ratios):
    """The median of the ratios; `None` without ratios."""
    if not ratios:
        return None
    return Comparison(statistics.median(ratios), interval(ratios), len(ratios))


def is_seen(recorded, null):
    """Whether a difference is seen: the interval of the recorded pairs lies beside 1, and their median lies outside the interval of
    the pairs alone. `None` where either has no interval."""
    if recorded.interval is None or null.interval is None:
        return None
    apart = recorded.interval.low > 1 or recorded.interval.high < 1
    allowed = min(null.interval.low, 1) <= recorded.median <= max(null.interval.high, 1)
    return apart and not allowed


def blocks(modes, rounds):
    """The order of the modes: each once in each round, beginning with another mode from round to round. Each is a block of four runs."""
    return [modes[(index + turn) % len(modes)] for turn in range(rounds) for index in range(len(modes))]


def recorded_ratios(figures):
    """The ratios of a block, whose runs were alone, recorded, recorded, alone: two, each recorded to alone."""
    before, first, second, after = figures
    return [first / before, second / after]


def null_ratios(edges):
    """The ratios of runs alone beside each other: the last run in a block and the first run in the next. The earlier and the later
    run take turns as the divisor, like the run alone in the pairs of a block. `edges` has a pair for each two blocks."""
    return [later / earlier if index % 2 == 0 else earlier / later for index, (earlier, later) in enumerate(edges)]
