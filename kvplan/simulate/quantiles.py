"""Percentiles of any number of values in a few kilobytes: a count for each value, to 9 significant bits (0.2 %)."""

from __future__ import annotations

from collections import Counter

_BITS = 9


class Quantiles:
    """Values of 0 or more, counted; two of them can be added, in any order, with the same result."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, value: int, weight: int = 1) -> None:
        """Count a value so many times."""
        shift = max(0, value.bit_length() - _BITS)
        self.counts[value >> shift << shift] += weight

    def update(self, other: Quantiles) -> None:
        """Count what another has counted."""
        self.counts.update(other.counts)

    def at(self, percent: float) -> int | None:
        """Return the smallest value that so many percent of all do not exceed, None where there are none."""
        total = self.counts.total()
        if not total:
            return None
        seen = 0
        for value in sorted(self.counts):
            seen += self.counts[value]
            if seen * 100 >= percent * total:
                return value
        raise AssertionError

    def largest(self) -> int | None:
        """Return the largest value."""
        return max(self.counts, default=None)
