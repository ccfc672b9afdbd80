"""The lines of a file, and where in them the words of a program stand that is the value of a YAML scalar.

A literal block keeps its lines, so a word's line is counted. A folded or quoted scalar does not: there a word is looked
for from where the one before it was found.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from kvplan.manifests.tree import Place

_AHEAD = 40  # lines that are searched for the next word; no public folded command leaves out more
_MISSES = 200  # after so many words that are not found (escapes, a hostile file) the search is given up


class Lines:
    """A file's text by lines."""

    __slots__ = ("_lines",)

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")

    def __getitem__(self, number: int) -> str:
        """Return a line by its number, counted from 1; an empty one beyond the end."""
        return self._lines[number - 1] if 0 < number <= len(self._lines) else ""

    def whole(self, text: str) -> Callable[[int, str], Place]:
        """Return the locator of the file's own text."""
        return _counted(text, 1)

    def within(self, start: Place, text: str) -> Callable[[int, str], Place]:
        """Return the locator of a program, which is the value of the scalar, or the word, at a place."""
        if not self[start.line][start.column - 1 :].startswith("|"):
            return _Search(self, start).place
        counted = _counted(text, start.line + 1)

        def place(offset: int, raw: str) -> Place:
            line = counted(offset, raw).line
            return Place(line, max(0, self[line].find(raw.partition("\n")[0])) + 1)

        return place


def _counted(text: str, first_line: int) -> Callable[[int, str], Place]:
    ends = [i for i, c in enumerate(text) if c == "\n"]

    def place(offset: int, _: str) -> Place:
        line = bisect_left(ends, offset)
        return Place(first_line + line, offset - (ends[line - 1] + 1 if line else 0) + 1)

    return place


class _Search:
    """Looks words up one after another; a word that is not found has the place of the one before it."""

    __slots__ = ("_here", "_lines", "_misses", "_next")

    def __init__(self, lines: Lines, start: Place) -> None:
        self._lines = lines
        self._here = self._next = start
        self._misses = 0

    def place(self, _: int, raw: str) -> Place:
        """Return where a word stands."""
        wanted = raw.partition("\n")[0]
        if self._misses < _MISSES and wanted:
            for number in range(self._next.line, self._next.line + _AHEAD):
                begin = self._next.column - 1 if number == self._next.line else 0
                column = self._lines[number].find(wanted, begin)
                if column >= 0:
                    self._here = Place(number, column + 1)
                    self._next = Place(number, column + 1 + len(wanted))
                    return self._here
            self._misses += 1
        return self._here
