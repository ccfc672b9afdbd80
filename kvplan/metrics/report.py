"""From one or two scrapes to a report: the one way in for commands and for Python."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from kvplan.errors import UsageError
from kvplan.metrics.fetch import SECONDS, is_url, read
from kvplan.metrics.flow import Flow, flow
from kvplan.metrics.snapshot import Snapshot, snapshot
from kvplan.metrics.verdict import TROUBLE, Code, Finding, judge
from kvplan.sources.document import shown

MAX_INTERVAL = 3600.0
MAX_SECONDS = 600.0
_PAUSE = 15.0  # seconds between two visits of one server, Prometheus' usual scrape interval


@dataclass(frozen=True, slots=True)
class Report:
    """A server's state (the last snapshot), its rates, and the findings, the verdict first."""

    server: Snapshot
    flow: Flow
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Code:
        """The first finding's code."""
        return self.findings[0].code

    @property
    def trouble(self) -> bool:
        """Whether there is something to change: the verdict, or a finding beside it."""
        return self.verdict in TROUBLE or len(self.findings) > 1


def audit_metrics(
    sources: Sequence[str],
    *,
    interval: float | None = None,
    max_num_seqs: int | None = None,
    seconds: float = SECONDS,
) -> Report:
    """Judge a server by one snapshot, or by two, older first: files, `-` for stdin, or http addresses.

    `interval` is the seconds between two saved snapshots, or to wait between two visits of an address (default 15);
    `max_num_seqs` is the server's own limit, which no metric holds. Raises UsageError, UnreadableInput, UrlUnreachable.
    """
    _check(sources, interval, max_num_seqs, seconds)
    visits = all(is_url(source) for source in sources)
    if visits and len(set(sources)) == 2:
        raise UsageError("--metrics: the two addresses differ", "two snapshots are of one server: give it twice")
    first = snapshot(read(sources[0], seconds=seconds))
    if len(sources) == 1:
        return _report(None, first, None, max_num_seqs)
    if visits:
        time.sleep(_PAUSE if interval is None else interval)
    last = snapshot(read(sources[1], seconds=seconds))
    for one, other in ((first.dialect.label, last.dialect.label), (first.model, last.model)):
        if one and other and one != other:
            told = f"one snapshot is of {shown(one)}, the other of {shown(other)}"
            raise UsageError(f"--metrics: {told}", "give two of one server, the older first")
    return _report(first, last, None if visits else interval, max_num_seqs)


def _check(sources: Sequence[str], interval: float | None, max_num_seqs: int | None, seconds: float) -> None:
    if not 1 <= len(sources) <= 2:
        raise UsageError(f"--metrics takes one snapshot or two, not {len(sources)}", "give the older one first")
    if interval is not None and not 0 < interval <= MAX_INTERVAL:
        raise UsageError(f"--interval takes seconds above 0, at most {MAX_INTERVAL:,.0f}")
    if not 0 < seconds <= MAX_SECONDS:
        raise UsageError(f"--timeout takes seconds above 0, at most {MAX_SECONDS:,.0f}")
    if max_num_seqs is not None and max_num_seqs < 1:
        raise UsageError("--max-num-seqs takes a whole number from 1 up")
    if list(sources).count("-") > 1:
        raise UsageError("--metrics: stdin can be read once", "save one of the snapshots to a file")


def _report(first: Snapshot | None, last: Snapshot, interval: float | None, max_num_seqs: int | None) -> Report:
    rates = flow(first, last, interval)
    return Report(last, rates, judge(last, rates, max_num_seqs))
