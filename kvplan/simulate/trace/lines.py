"""The lines of a trace: a file, a gzip file or stdin, one after the other, in bounded memory."""

from __future__ import annotations

import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, cast

from kvplan.errors import UnreadableInput
from kvplan.simulate.trace.problems import Problems
from kvplan.sources.document import reason, shown
from kvplan.units import MIB

MAX_LINE = 16 * MIB  # a chat of a million tokens takes 4 MiB
MAX_BLANK = 1000  # lines in a row: of nothing else, a gzip file of 58 KB holds 60 million
_GZIP = b"\x1f\x8b"


def read_lines(source: str, problems: Problems) -> Iterator[str]:
    """Yield the lines of a path, or of stdin where it is `-`; a longer line than `MAX_LINE` is cut.

    `MAX_BLANK` blank lines end it, in whichever format they are.
    """
    with _opened(source) as file:
        packed = file.peek(2)[:2] == _GZIP
        stream: IO[bytes] = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file
        number = blank = 0
        first = True
        while True:
            try:
                line = _line(stream)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                problems.note("truncated_gzip", number, f"the gzip file breaks off: {str(error)[:80].lower()}")
                return
            except OSError as error:
                raise UnreadableInput(f"cannot read {shown(source)}: {reason(error)}") from error
            if not line:
                return
            number += 1
            blank = blank + 1 if line.isspace() else 0
            if blank == MAX_BLANK:
                problems.note("blank_lines", number, f"line {number:,} is the last of {MAX_BLANK:,} blank ones")
                return
            yield line.decode("utf-8-sig" if first else "utf-8", errors="replace")
            first = False


def _line(stream: IO[bytes]) -> bytes:
    """Return the next line; of one that is too long only the beginning, which will be no row."""
    line = stream.readline(MAX_LINE)
    rest = line
    while len(rest) == MAX_LINE and not rest.endswith(b"\n"):
        rest = stream.readline(MAX_LINE)
    return line


@contextmanager
def _opened(source: str) -> Iterator[BufferedReader]:
    if source == "-":
        if sys.stdin is None:  # closed by the caller
            raise UnreadableInput("stdin is closed", "pipe a trace into it, or give --trace FILE")
        yield cast("BufferedReader", sys.stdin.buffer)
        return
    path = Path(source)
    try:
        kind = os.stat(path).st_mode  # noqa: PTH116  # as in sources: one call for all
        if stat.S_ISDIR(kind):
            raise UnreadableInput(f"{shown(source)} is a folder", "give one trace file")
        if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
            raise UnreadableInput(f"{shown(source)} is neither a file nor a pipe", "give a trace file, or - for stdin")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise UnreadableInput(f"cannot read {shown(source)}: {reason(error)}", "is it the right path?") from error
    except ValueError as error:  # a path with a null byte
        raise UnreadableInput(f"{shown(source)} is no path", "give a trace file, or - for stdin") from error
