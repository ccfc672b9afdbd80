"""Where the rows of a replay may go: CSV files, a progress line, memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from kvplan.errors import UsageError
from kvplan.simulate.series import RequestRow, StepRow, Timing, header, line
from kvplan.sources.whole import writing_whole

MAX_KEPT = 250_000  # rows of a series in one JSON object; more are for CSV


class StepLines:
    """Writes a line a step."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        out.write(header(StepRow))

    def __call__(self, rows: Sequence[StepRow]) -> None:
        """Take a batch."""
        self._out.writelines(map(line, rows))


class RequestLines:
    """Writes a line a request in the order of arrival; those that finish early wait for those before them."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._early: dict[int, RequestRow] = {}
        self._next = 0
        out.write(header(RequestRow))

    def __call__(self, rows: Sequence[tuple[RequestRow, Timing]]) -> None:
        """Take a batch."""
        for row, _ in rows:
            self._early[row.seq] = row
        while self._next in self._early:
            self._out.write(line(self._early.pop(self._next)))
            self._next += 1

    def close(self) -> None:
        """Write what an interrupted replay left over."""
        self._out.writelines(line(self._early[seq]) for seq in sorted(self._early))


class Kept:
    """Keeps both series for one JSON object, up to `MAX_KEPT` rows."""

    def __init__(self) -> None:
        self._steps: list[StepRow] = []
        self._requests: list[RequestRow] = []
        self._full = False

    def steps(self, rows: Sequence[StepRow]) -> None:
        """Take a batch of steps."""
        self._full = self._full or len(self._steps) + len(rows) > MAX_KEPT
        if not self._full:
            self._steps += rows

    def requests(self, rows: Sequence[tuple[RequestRow, Timing]]) -> None:
        """Take a batch of requests."""
        self._full = self._full or len(self._requests) + len(rows) > MAX_KEPT
        if not self._full:
            self._requests += (row for row, _ in rows)

    def object(self) -> dict[str, Any] | None:
        """Return the series as columns and rows, None where they are too long."""
        if self._full:
            return None
        return {
            "steps": {"columns": list(StepRow._fields), "rows": [list(row) for row in self._steps]},
            "requests": {"columns": list(RequestRow._fields), "rows": [list(row) for row in sorted(self._requests)]},
        }


@contextmanager
def written(path: str | None, what: str) -> Iterator[IO[str] | None]:
    """Open a file for a series, in place once the replay has ended; None where none was asked for.

    Raises UsageError where it cannot be written.
    """
    if path is None:
        yield None
        return
    try:
        with writing_whole(path) as out:
            yield out
    except BrokenPipeError:  # the reader of a pipe went away: the command line's own answer
        raise
    except OSError as error:
        raise UsageError(f"cannot write {what} {path[:80]}: {(error.strerror or 'it failed').lower()}") from error
