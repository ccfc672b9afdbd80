"""What a finding is known by from run to run: rule, path and deployment, without the line, which moves."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

from kvplan.checks.finding import Report
from kvplan.manifests.read import Problem


def fingerprints(report: Report) -> list[str]:
    """Return one a finding, in order; a rule that speaks twice of a deployment is numbered."""
    seen: Counter[tuple[str, ...]] = Counter()
    marks = []
    for finding in report.findings:
        key = (finding.rule, report.path(finding.file), finding.deployment)
        marks.append(_hash(*key, str(seen[key])))
        seen[key] += 1
    return marks


def problem_fingerprint(report: Report, problem: Problem) -> str:
    """Return that of a file that cannot be read."""
    return _hash("unreadable", report.path(problem.file), str(problem.place.line))


def _hash(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()
