"""Where requests come from, as a value that another process can open: a file, made-up traffic, rows at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias, assert_never

from kvplan.simulate.request import Request
from kvplan.simulate.settings import Selection
from kvplan.simulate.synthetic import Load, synthesize
from kvplan.simulate.trace import read_trace, select
from kvplan.simulate.trace.layout import Layout
from kvplan.simulate.trace.problems import Problems


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace on disk, or stdin (`-`), and the rows of it."""

    path: str
    layout: Layout = field(default_factory=Layout)
    rows: Selection = field(default_factory=Selection)


@dataclass(frozen=True, slots=True)
class Made:
    """Synthetic traffic: the same for a seed."""

    load: Load
    seed: int


@dataclass(frozen=True, slots=True)
class AtHand:
    """Requests that were read already, with the problems that were met."""

    requests: tuple[Request, ...]
    problems: Problems


Source: TypeAlias = TraceFile | Made | AtHand


def open_source(source: Source, problems: Problems, shard: tuple[int, int] = (0, 1)) -> Iterator[Request]:
    """Yield the requests of a source, or every n-th of them for the replica (i, n)."""
    return islice(_requests(source, problems), shard[0], None, shard[1])


def _requests(source: Source, problems: Problems) -> Iterator[Request]:
    match source:
        case TraceFile(path, layout, rows):
            return select(read_trace(path, layout, problems), rows)
        case Made(load, seed):
            return synthesize(load, seed)
        case AtHand(requests, seen):
            problems.seen.update(seen.seen)
            return iter(requests)
    assert_never(source)


def read_at_hand(source: Source, problems: Problems) -> AtHand:
    """Read a source once for several replays: stdin can be read once, and a cluster has not this machine's files."""
    return AtHand(tuple(open_source(source, problems)), problems)
