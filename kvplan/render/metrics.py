"""A running server's report as text and as JSON: figures with their source, verdict, evidence, one next step."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kvplan.metrics.report import Report
from kvplan.metrics.snapshot import State
from kvplan.metrics.verdict import hottest
from kvplan.render.table import table
from kvplan.units import quantity

_WIDTH = 100
_MAX_REPLICAS = 16
_REPLICA_HEADER = ("replica", "running", "waiting", "usage")
_LABELS = {
    "over_admission": "over-admission",
    "scheduler_limit": "scheduler limit",
    "prefix_cache_off": "prefix cache",
    "no_prefix_hits": "prefix cache",
    "room": "room to spare",
}


def metrics_text(report: Report) -> list[str]:
    """Return the lines of a report."""
    server = report.server
    left = server.dialect.label + (f"   {server.model}" if server.model else "")
    right = "" if server.pool_tokens is None else f"pool of {server.pool_tokens:,} tokens"
    lines = [f"{left}{right.rjust(max(_WIDTH - len(left), len(right) + 3))}".rstrip(), ""]
    lines += _figures(report)
    if len(server.states) > 1:
        lines += ["", *_replicas(server.states)]
    for finding in report.findings:
        lines += ["", f"  {_LABELS.get(finding.code, finding.code)}: {finding.message}"]
        lines += [f"    {told}" for told in finding.evidence]
        lines += [f"  next: {finding.hint}"] if finding.hint else []
    notes = _notes(report)
    return lines + ([""] if notes else []) + [f"  note: {note}" for note in notes]


def metrics_object(report: Report) -> dict[str, Any]:
    """Return the object of `kvplan audit --metrics … --format json`."""
    server = report.server
    return {
        "schema": 1,
        "engine": server.dialect.engine,
        "model": server.model or None,
        "pool_tokens": server.pool_tokens,
        "prefix_caching": server.prefix_caching,
        "replicas": [asdict(state) for state in server.states],
        "flow": asdict(report.flow) | {"inconsistent": list(report.flow.inconsistent)},
        "verdict": report.verdict,
        "findings": [asdict(finding) | {"evidence": list(finding.evidence)} for finding in report.findings],
        "metrics": dict(server.names),
        "missing": list(server.missing),
    }


def _figures(report: Report) -> list[str]:
    server, flow, state = report.server, report.flow, hottest(report.server)
    since = "since the start" if flow.since == "start" else "since the first snapshot"
    if flow.seconds is not None:
        since = f"in {quantity(flow.seconds, 0)} s"
    rows = [
        ("running", _count(state.running), _name(report, "running")),
        ("waiting", _count(state.waiting), _name(report, "waiting")),
        ("kv cache in use", _share(state.usage), _name(report, "usage")),
        ("preemptions", _count(flow.preemptions), _rate(report, since)),
        ("finished", _count(flow.finished), "" if flow.finished is None else since),
        ("prefix hits", _share(flow.hit_rate), _looked_up(report, since)),
        ("in the queue", _seconds(flow.queue_seconds), "" if flow.queue_seconds is None else f"on average, {since}"),
    ]
    if len(server.states) > 1:
        rows[0] = (rows[0][0], rows[0][1], f"{rows[0][2]}, the fullest of {len(server.states)} replicas")
    return [line for line in table(("",) * 3, rows, right=frozenset({1})) if line]


def _name(report: Report, figure: str) -> str:
    return report.server.names.get(figure, "not exposed")


def _rate(report: Report, since: str) -> str:
    flow = report.flow
    if flow.preemptions is None:
        return "not exposed"
    if flow.preemptions_a_minute is not None:
        return f"{since}, {quantity(flow.preemptions_a_minute, 1)} a minute"
    a_request = flow.preemptions_a_request
    return since if a_request is None else f"{since}, {quantity(a_request, 3)} a finished request"


def _looked_up(report: Report, since: str) -> str:
    if report.flow.inconsistent:
        return "inconsistent, see the note"
    tokens = report.flow.queried_tokens
    return "" if tokens is None else f"of {tokens:,.0f} tokens {since}"


def _replicas(states: tuple[State, ...]) -> list[str]:
    rows = [(s.replica or "-", _count(s.running), _count(s.waiting), _share(s.usage)) for s in states[:_MAX_REPLICAS]]
    more = len(states) - len(rows)
    lines = table(_REPLICA_HEADER, rows, right=frozenset({1, 2, 3}))
    return lines + ([f"  and {more} more; --format json lists all"] if more else [])


def _notes(report: Report) -> list[str]:
    notes = list(report.server.missing)
    notes += [f"inconsistent counters: {told}; no verdict rests on them" for told in report.flow.inconsistent]
    if report.flow.restarted:
        notes.append("counters went back between the snapshots: the server restarted, or the newer one was given first")
    elif report.flow.since == "start" and report.flow.preemptions is not None:
        notes.append("one snapshot counts from the server's start; a second --metrics gives the rates of now")
    elif report.flow.still:
        notes.append("no counter moved between the snapshots: the same scrape twice, or a server that stands still")
    elif report.flow.seconds is None and report.flow.since != "start":
        notes.append("the snapshots hold no time: --interval SECONDS gives rates by the minute")
    return notes


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{quantity(value * 100, 1)} %"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{quantity(value, 2)} s"
