"""Traces: read row by row, checked, in bounded memory; what is wrong with them is counted and named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from kvplan.errors import UnreadableInput
from kvplan.simulate.request import Request
from kvplan.simulate.settings import Selection
from kvplan.simulate.trace.layout import Layout
from kvplan.simulate.trace.lines import read_lines
from kvplan.simulate.trace.problems import Problems
from kvplan.simulate.trace.records import read_records
from kvplan.simulate.trace.table import read_table
from kvplan.sources.document import shown


def read_trace(source: str, layout: Layout, problems: Problems) -> Iterator[Request]:
    """Yield the requests of a file, or of stdin (`-`): CSV, or JSON objects a line, by what the first line looks like.

    Arrivals are as the trace counts them. Raises UnreadableInput where the file is no trace at all.
    """
    lines = read_lines(source, problems)
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise UnreadableInput(f"{shown(source)} is empty", "a trace has a request a line")
    start = first.lstrip()[:1]
    if start == "[":
        raise UnreadableInput(f"{shown(source)} is one JSON list", "give a JSON object a line: jq -c '.[]' FILE")
    if start == "{":
        requests = read_records(chain([first], lines), layout, problems)
    else:
        requests = read_table(first, lines, layout, problems)
    return _believable(source, requests, problems)


def _believable(source: str, requests: Iterator[Request], problems: Problems) -> Iterator[Request]:
    """Yield the requests; a file without any is refused."""
    first = next(requests, None)
    if first is None:
        worst = max(problems.seen.values(), key=lambda seen: seen.count, default=None)
        hint = f"row {worst.first_row}: {worst.example}" if worst else "is the file whole?"
        raise UnreadableInput(f"{shown(source)} has no request in it", hint)
    yield first
    yield from requests


def select(requests: Iterable[Request], rows: Selection) -> Iterator[Request]:
    """Yield the selected rows, their arrivals counted from the first of them."""
    last = None if rows.row_count is None else rows.first_row + rows.row_count
    start = None
    for request in requests:
        if last is not None and request.row >= last:
            return
        if request.row < rows.first_row:
            continue
        if start is None:
            start = request.arrival_ns
        yield request._replace(arrival_ns=request.arrival_ns - start)
