"""Logarithmic axes: positions and round ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

_MAX_TICKS = 6


@dataclass(frozen=True, slots=True)
class LogScale:
    """Maps values between `low` and `high`, both above 0, to positions between `start` and `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the position of a value."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


def decades(low: float, high: float) -> tuple[float, float, tuple[float, ...]]:
    """Return round bounds around two values and the ticks between them: 1, 2, 5 of each decade, or decades alone."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = [digit * 10.0**power for power in range(first, last + 1) for digit in (1, 2, 5)]
    below, above = max(s for s in steps if s <= low), min(s for s in steps if s >= high)
    if below == above:
        below, above = steps[0], max(s for s in steps if s <= steps[0] * 10)
    ticks = [step for step in steps if below <= step <= above]
    if len(ticks) > _MAX_TICKS:
        below, above = 10.0 ** math.floor(math.log10(below)), 10.0 ** math.ceil(math.log10(above))
        ticks = [10.0**power for power in range(round(math.log10(below)), round(math.log10(above)) + 1)]
    return below, above, tuple(ticks)


def doublings(low: int, high: int, most: int) -> tuple[int, ...]:
    """Return powers of two from `low` to `high`, evenly apart, at most `most` of them."""
    powers = [2**power for power in range((low - 1).bit_length(), high.bit_length())]
    return tuple(powers[:: max(1, math.ceil(len(powers) / most))])
