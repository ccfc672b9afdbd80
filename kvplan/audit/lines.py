"""The lines of a log as they were before collectors and terminals had their way with them.

A log comes coloured, wrapped in JSON by a container runtime, prefixed by a time and a pod, and mixed from several
ranks. Sizes are bounded: a log of a stranger is data. Most lines of a long log are requests, so a line without any of
the words that are looked for is left before anything else is done with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

MAX_BYTES = 64 * 2**20
MAX_LINE = 32_768  # characters; the longest start-up line, the engine's configuration, has about 6,000
MAX_KEPT = 200_000  # lines that hold a word; a start-up has some hundreds

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")
_RANK = re.compile(
    r"\b(?:Worker_?(?:DP[0-9]{1,4}_)?(?:PP[0-9]{1,4}_)?TP|rank[= ]|Worker_)(?P<rank>[0-9]{1,4})\b", re.ASCII
)
_TEXT_KEYS = ("log", "message", "msg", "text", "textPayload", "line", "MESSAGE")


@dataclass(frozen=True, slots=True)
class Line:
    """One line, without colours and wrappings; `rank` is the worker that wrote it, None where it does not say."""

    text: str
    rank: int | None
    number: int


def clean_lines(text: str, words: Collection[str]) -> Iterator[Line]:
    """Yield the lines of a log that hold one of the words; one that is too long is cut."""
    numbered = ((number, whole[:MAX_LINE]) for number, whole in enumerate(text[:MAX_BYTES].splitlines(), 1))
    kept = (found for found in numbered if any(word in found[1] for word in words))
    for number, raw in islice(kept, MAX_KEPT):
        line = _COLOUR.sub("", _unwrapped(raw)).replace("\x00", "")
        for part in line.splitlines():
            found = _RANK.search(part)
            yield Line(part, int(found["rank"]) if found else None, number)


def _unwrapped(line: str) -> str:
    """Return the text of a line that a container runtime or a collector wrapped in JSON."""
    start = line.find("{")
    if start < 0 or not line.rstrip().endswith("}"):
        return line
    try:
        value: Any = json.loads(line[start:])
    except (ValueError, RecursionError):
        return line
    if not isinstance(value, dict):
        return line
    texts = [value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)]
    return texts[0] if texts else line
