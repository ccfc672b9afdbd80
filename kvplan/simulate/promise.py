"""What was promised, in limits: `ttft_p99=2s,itl_p99=50ms,preemptions=0`, and whether a replay keeps it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvplan.errors import UsageError, near
from kvplan.simulate.run import Result
from kvplan.simulate.trace.values import UNITS

_LATENCIES = {"ttft": "ttft_ns", "itl": "itl_ns", "e2e": "e2e_ns", "queue": "queue_ns"}
_LIMIT = re.compile(r"(?:(ttft|itl|e2e|queue)_p([0-9]{1,2}(?:\.[0-9]{1,2})?)|(preemptions))", re.ASCII)
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(ns|us|ms|s)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that one figure may be: nanoseconds of a percentile, or how many preemptions."""

    name: str
    most: int

    def value(self, result: Result) -> int | None:
        """Return the figure of a replay; None where it has none."""
        found = _LIMIT.fullmatch(self.name)
        if found is None or found[3]:
            return result.summary.preemptions
        return getattr(result.summary, _LATENCIES[found[1]]).at(float(found[2]))  # type: ignore[no-any-return]

    def kept(self, result: Result) -> bool:
        """Whether a replay keeps it."""
        value = self.value(result)
        return value is None or value <= self.most


@dataclass(frozen=True, slots=True)
class Promise:
    """Limits, all of which are to be kept."""

    limits: tuple[Limit, ...]

    def kept(self, result: Result) -> bool:
        """Whether a replay that came to its end keeps them all."""
        return result.outcome == "complete" and all(limit.kept(result) for limit in self.limits)

    def excess(self, result: Result) -> float:
        """Return by what factor the worst figure is above its limit; 1 or less where all are kept."""
        return max((_ratio(limit.value(result), limit.most) for limit in self.limits), default=0.0)


def parse_promise(text: str) -> Promise:
    """Read limits; raises UsageError, which names the one that cannot be read."""
    limits = []
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        found = _LIMIT.fullmatch(name)
        if not equals or found is None:
            hint = near(name, ["ttft_p99", "itl_p99", "e2e_p99", "queue_p99", "preemptions"])
            raise UsageError(f"--promise: {part[:60]!r} is not read", hint or "ttft_p99=2s,itl_p99=50ms,preemptions=0")
        limits.append(Limit(name, _most(part, value, counted=found[3] is not None)))
    return Promise(tuple(limits))


def _most(part: str, value: str, *, counted: bool) -> int:
    if counted:
        if value.isascii() and value.isdigit() and len(value) < 10:
            return int(value)
    elif (found := _TIME.fullmatch(value)) is not None:
        return round(float(found[1]) * UNITS[found[2]])
    hint = "a whole number" if counted else "a time with its unit: 50ms, 2s"
    raise UsageError(f"--promise: {part[:60]!r} has no limit", hint)


def _ratio(value: int | None, most: int) -> float:
    if value is None or value <= most:
        return (value or 0) / most if most else 0.0
    return value / most if most else float(1 + value)
