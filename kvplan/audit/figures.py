"""The figures of a start-up: where a line holds one, and which of them no start can print.

A log is a stranger's data. So a pattern is tried only near its words, never over a whole line, and a figure that no
card holds is no measurement.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# The look-behind keeps a run of digits from being tried at each of them; nan and inf are read to be refused
NUMBER = r"(?<![\w.,-])(-?(?:[0-9]{1,20}(?:\.[0-9]{1,20})?|nan|NaN|inf)(?![0-9]))"
COUNT = r"([0-9][0-9,]{0,26})(?![0-9,])"
GAP = r".{0,400}?"
MOST_GIB = 1024.0  # the largest card of the catalogue has 288

_BEFORE, _AFTER = 64, 640  # characters around the words; GAP and a few figures
_TRIES = 8  # the engine's configuration has a handful of names that end in dtype
_MOST = 1e12  # no count of a start-up is larger
_SHARES = frozenset({"utilization", "fraction"})
# The engine prints what is left before it refuses; what graphs took is a difference of two readings, and in no plan
_BELOW_NOTHING = frozenset({"kv_gib", "left_gib", "graphs_gib"})
_ASKED_FOR = frozenset({"total_gib", "needed_gib"})  # of another card, or of more cards than there are


@dataclass(frozen=True, slots=True)
class Printed:
    """`words` that a line must hold, and a pattern near them, whose first group is the figure."""

    words: str
    pattern: re.Pattern[str]

    def find(self, text: str) -> float | None:
        """Return the figure, None where the line does not print it."""
        match = near(self.pattern, self.words, text)
        return None if match is None else float(match[1].replace(",", ""))


def near(pattern: re.Pattern[str], words: str, text: str) -> re.Match[str] | None:
    """Return the first match of a pattern around its words; a line that repeats them for ever is left soon."""
    at = text.find(words)
    for _ in range(_TRIES):
        if at < 0:
            return None
        match = pattern.search(text, max(0, at - _BEFORE), at + _AFTER)
        if match is not None:
            return match
        at = text.find(words, at + 1)
    return None


Figures = Mapping[str, tuple[Printed, ...]]


def wordings(figures: Mapping[str, Iterable[tuple[str, str]]]) -> Figures:
    """Compile the wordings of each figure."""
    return {name: tuple(Printed(words, re.compile(text)) for words, text in of) for name, of in figures.items()}


def figures_of(text: str, known: Figures) -> dict[str, float]:
    """Return the figures of a line, each by the first of its wordings that fits."""
    found = {name: next((v for one in of if (v := one.find(text)) is not None), None) for name, of in known.items()}
    return {name: value for name, value in found.items() if value is not None}


def absurd(figures: Mapping[str, float], most_gib: float = MOST_GIB) -> str | None:
    """Name the first figure that no start prints: no number, below nothing, or more than a card holds."""
    for name, value in figures.items():
        is_size = name.endswith("_gib")
        most = most_gib if is_size and name not in _ASKED_FOR else 1.0 if name in _SHARES else _MOST
        if not (-most if name in _BELOW_NOTHING else 0) <= value <= most or not math.isfinite(value):
            return f"{name.removesuffix('_gib').replace('_', ' ')} of {value:g}{' GiB' if is_size else ''}"
    return None
