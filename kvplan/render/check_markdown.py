"""The report as Markdown: for a job's summary, and as a comment of a pull request that is found again by its marker."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.finding import Report, Severity
from kvplan.render.check_text import advice, engine, hardware, summary, verdict
from kvplan.render.table import markdown_table
from kvplan.units import gib, quantity

MARKER = "<!-- kvplan -->"
_HEADER = ("deployment", "model", "hardware", "weights", "KV cache", "tokens", "requests", "verdict")
_RIGHT = frozenset({3, 4, 5, 6})
_SIGNS = {Severity.ERROR: ":x:", Severity.WARNING: ":warning:", Severity.NOTE: ":information_source:"}


def check_markdown(report: Report) -> list[str]:
    """Return the lines: the marker, a table of deployments, the findings, a ledger each behind a fold."""
    lines = [MARKER, "### kvplan check", "", summary(report), *map(_plain, advice(report)), ""]
    if report.cases:
        lines += [*markdown_table(_HEADER, [_row(case) for case in report.cases], right=_RIGHT), ""]
    for finding in sorted(report.findings, key=lambda f: -f.severity):
        fix = f" Fix: {_code(finding.fix)}." if finding.fix else ""
        where = f"{_code(f'{report.path(finding.file)}:{finding.place.line}')} {_plain(finding.deployment)}"
        lines.append(f"- {_SIGNS[finding.severity]} **{finding.rule}** {where}: {_plain(finding.message)}.{fix}")
    for problem in report.problems:
        if problem.grave:
            where = _code(f"{report.path(problem.file)}:{problem.place.line}")
            lines.append(f"- :x: **error** {where}: {_plain(problem.message)}")
    for case in report.cases:
        if case.unknown_release is not None:
            found = case.deployment
            where = f"{_code(f'{report.path(found.file)}:{found.place.line}')} {_plain(found.where)}"
            lines.append(f"- {_SIGNS[Severity.NOTE]} {where}: {_plain(engine(case))}")
    for case in report.cases:
        lines += _ledger(case)
    return lines


def _row(case: Case) -> tuple[str, ...]:
    plan = case.plan
    weights = plan.weights_per_rank if plan is not None else None
    kv = plan.kv if plan is not None else None
    pool = plan.budget.kv_bytes if plan is not None else None
    return tuple(
        _plain(cell)
        for cell in (
            f"{case.deployment.file}: {case.deployment.where}",
            case.deployment.model or "-",
            hardware(case) or "-",
            gib(weights) if weights is not None else "-",
            gib(pool) if pool is not None else "-",
            f"{kv.tokens:,}" if kv is not None and kv.tokens is not None else "-",
            quantity(kv.max_concurrency, 2) if kv is not None and kv.max_concurrency is not None else "-",
            verdict(case).partition(":")[0] if plan is not None else verdict(case),
        )
    )


def _ledger(case: Case) -> Iterator[str]:
    if case.plan is None or case.plan.budget.requested_bytes is None:
        return
    yield from ("", f"<details><summary>{_plain(case.deployment.where)}</summary>", "")
    rows = [(line.name, gib(line.bytes, 2), line.basis, _plain(line.why)) for line in case.plan.budget.lines]
    yield from markdown_table(("line", "size of one GPU", "basis", "why"), rows, right=frozenset({1}))
    yield from ("", "</details>")


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def _plain(text: str) -> str:
    """Keep what a manifest says from being read as HTML, a mention or a link."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    return " ".join(escaped.replace("[", "\\[").replace("`", "'").split())
