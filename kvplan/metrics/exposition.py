"""Prometheus' text format, read tolerantly: what is no sample of the asked prefixes is passed over, never refused.

prometheus_client parses the format too, but it raises at the first odd line, and every CI job would install it. A
scrape of a large deployment has 20,000 lines; the bounds are far above that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_SAMPLES = 200_000
_MAX_LINE = 16_384
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*", re.ASCII)
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,?)', re.ASCII)
_VALUE = re.compile(r"\s*(\S+)(?:\s+(-?[0-9]{1,19}(?:\.[0-9]+)?))?\s*(?:#.*)?", re.ASCII)
_ESCAPES = {r"\n": "\n", r"\"": '"', r"\\": "\\"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: a series, its value (NaN and infinities as they came) and the moment in seconds, where it has one."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    moment: float | None

    def label(self, name: str) -> str:
        """Return a label's value, empty where the series has none of that name, as Prometheus reads it."""
        return next((value for key, value in self.labels if key == name), "")


def samples(text: str, prefixes: Sequence[str]) -> Iterator[Sample]:
    """Yield the samples whose name starts with a prefix, at most `MAX_SAMPLES`."""
    starts, count = tuple(prefixes), 0
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped.startswith(starts) or len(stripped) > _MAX_LINE:
            continue
        found = _sample(stripped)
        if found is not None:
            yield found
            count += 1
            if count == MAX_SAMPLES:
                return


def _sample(line: str) -> Sample | None:
    name = _NAME.match(line)
    if name is None:
        return None
    end = name.end()
    labels: list[tuple[str, str]] = []
    rest = line[end:].lstrip()
    if rest.startswith("{"):
        position = 1
        while (label := _LABEL.match(rest, position)) is not None:
            labels.append((label[1], re.sub(r"\\.", lambda at: _ESCAPES.get(at[0], at[0]), label[2])))
            position = label.end()
            if not label[3]:
                break
        closing = rest.find("}", position)
        if closing < 0 or rest[position:closing].strip():
            return None
        rest = rest[closing + 1 :]
    value = _VALUE.fullmatch(rest)
    if value is None:
        return None
    try:
        number = float(value[1])
    except ValueError:
        return None
    return Sample(name[0], tuple(labels), number, _seconds(value[2]))


def _seconds(stamp: str | None) -> float | None:
    """Prometheus writes milliseconds as an integer, OpenMetrics seconds with a fraction."""
    if stamp is None:
        return None
    return float(stamp) if "." in stamp else int(stamp) / 1000
