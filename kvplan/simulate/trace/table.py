"""CSV traces: a header with known or given names, or two columns of lengths, or three with the arrival in front.

A row is a line: a quote that its line does not close would make one row of the thousands behind it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from kvplan.errors import UnreadableInput
from kvplan.simulate.request import Request
from kvplan.simulate.trace.layout import Layout, find_roles, folded
from kvplan.simulate.trace.problems import Problems
from kvplan.simulate.trace.rows import NOT_GIVEN, Rows, shorten
from kvplan.simulate.trace.values import nanoseconds, tokens

_SHOWN = 8
_MAX_FIELD = csv.field_size_limit()  # 131,072 characters


@dataclass(frozen=True, slots=True)
class _Malformed:
    """A line that is no row, by the problem's code and in words."""

    code: str
    why: str


def read_table(first: str, rest: Iterable[str], layout: Layout, problems: Problems) -> Iterator[Request]:
    """Yield the requests of a CSV; `first` is its first line."""
    delimiter = max(",;\t", key=first.count)
    cells = _cells(chain([first], rest), delimiter)
    header = next(cells, [])
    if isinstance(header, _Malformed):
        raise UnreadableInput(f"the first line of the CSV cannot be read: {header.why}", "is it a trace?")
    headless = tokens(header[0]) is not None or nanoseconds(header[0], "s") is not None
    columns = _positions(len(header)) if headless else _named(header, layout)
    rows = Rows(problems, layout.unit or "s")
    for row, values in enumerate(chain([header], cells) if headless else cells):
        if isinstance(values, _Malformed):
            problems.note(values.code, row, values.why)
        elif (request := _request(row, values, columns, rows)) is not None:
            yield request


def _request(row: int, values: Sequence[str], columns: Mapping[str, int], rows: Rows) -> Request | None:
    def cell(role: str) -> str | None:
        at = columns.get(role)
        return None if at is None or at >= len(values) else values[at]

    return rows.request(
        row,
        cell("prompt"),
        cell("output"),
        arrival=cell("arrival") if "arrival" in columns else NOT_GIVEN,
        ident=cell("id"),
        priority=cell("priority"),
        salt=cell("salt"),
    )


def _cells(lines: Iterable[str], delimiter: str) -> Iterator[list[str] | _Malformed]:
    """Yield the cells of each line that is not empty."""
    for ended in lines:
        line = ended.rstrip("\r\n")
        if '"' in line or len(line) > _MAX_FIELD:
            yield _parsed(line, delimiter)
        elif line:
            yield line.split(delimiter)  # all that the parser does without quotes, at a quarter of its time a line


def _parsed(line: str, delimiter: str) -> list[str] | _Malformed:
    try:
        values = next(csv.reader([line + "\n"], delimiter=delimiter))
    except csv.Error as error:
        return _Malformed("unreadable_row", str(error))
    if values[-1].endswith("\n"):  # only an open quote keeps the line's end
        return _Malformed("open_quote", f"the quote is not closed: {shorten(line)}")
    return values


def _positions(count: int) -> dict[str, int]:
    if count == 2:
        return {"prompt": 0, "output": 1}
    if count == 3:
        return {"arrival": 0, "prompt": 1, "output": 2}
    raise UnreadableInput(
        f"a CSV of {count} columns without a header",
        "two columns are prompt and output tokens, three arrival, prompt and output; else give it a header",
    )


def _named(header: Sequence[str], layout: Layout) -> dict[str, int]:
    """Return where each role's column is, by the user's names before the known ones."""
    places = {folded(name): at for at, name in reversed(list(enumerate(header)))}
    names = find_roles(header) | dict(layout.columns)
    columns = {}
    for role, name in names.items():
        if folded(name) not in places:
            raise UnreadableInput(f"the CSV has no column {name[:40]!r}", f"it has {_listed(header)}")
        columns[role] = places[folded(name)]
    lacking = [role for role in ("prompt", "output") if role not in columns]
    if lacking:
        hint = f"it has {_listed(header)}; name it with --columns {','.join(f'{role}=NAME' for role in lacking)}"
        raise UnreadableInput(f"no column of the CSV is known to hold {' or '.join(lacking)} tokens", hint)
    return columns


def _listed(header: Sequence[str]) -> str:
    names = [name.strip()[:30] for name in header if name.strip() and name.isprintable()]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "no names in its first line (is it a trace?)"
