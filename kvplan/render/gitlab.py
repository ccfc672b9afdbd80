"""GitLab's code quality report: a list of findings, each with a fingerprint that stays while lines move."""

from __future__ import annotations

from typing import Any

from kvplan.checks.finding import Report, Severity
from kvplan.render.fingerprint import fingerprints, problem_fingerprint

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.NOTE: "info"}


def code_quality(report: Report) -> list[dict[str, Any]]:
    """Return the list."""
    entries = [
        {
            "description": finding.message + (f" (fix: {finding.fix})" if finding.fix else ""),
            "check_name": f"{finding.rule} {finding.name}",
            "fingerprint": mark,
            "severity": _SEVERITIES[finding.severity],
            "location": {"path": report.path(finding.file), "lines": {"begin": finding.place.line}},
        }
        for finding, mark in zip(report.findings, fingerprints(report), strict=True)
    ]
    entries += [
        {
            "description": problem.message,
            "check_name": "kvplan unreadable",
            "fingerprint": problem_fingerprint(report, problem),
            "severity": "blocker",
            "location": {"path": report.path(problem.file), "lines": {"begin": problem.place.line}},
        }
        for problem in report.problems
        if problem.grave
    ]
    return entries
