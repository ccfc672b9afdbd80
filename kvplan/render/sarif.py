"""SARIF 2.1.0, as GitHub's code scanning reads it: rules with their documentation, results with fingerprints."""

from __future__ import annotations

from typing import Any

from kvplan import __version__
from kvplan.checks.finding import Finding, Report, Severity
from kvplan.checks.registry import Rule, rules
from kvplan.render.fingerprint import fingerprints, problem_fingerprint

SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_UNREADABLE = "KVP000"


def sarif(report: Report) -> dict[str, Any]:
    """Return the log of one run."""
    known = rules()
    index = {rule.id: number for number, rule in enumerate(known, start=1)}
    results = [
        _result(finding.rule, index[finding.rule], _LEVELS[finding.severity], _text(finding), mark)
        | {"locations": [_location(report.path(finding.file), *finding.place)]}
        for finding, mark in zip(report.findings, fingerprints(report), strict=True)
    ]
    results += [
        _result(_UNREADABLE, 0, "error", problem.message, problem_fingerprint(report, problem))
        | {"locations": [_location(report.path(problem.file), *problem.place)]}
        for problem in report.problems
        if problem.grave
    ]
    driver = {
        "name": "kvplan",
        "version": __version__,
        "rules": [_unreadable(), *map(_rule, known)],
    }
    return {
        "$schema": SCHEMA_URI,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }


def _result(rule: str, index: int, level: str, text: str, mark: str) -> dict[str, Any]:
    return {
        "ruleId": rule,
        "ruleIndex": index,
        "level": level,
        "message": {"text": text},
        "partialFingerprints": {"kvplan/v1": mark},
    }


def _text(finding: Finding) -> str:
    return f"{finding.deployment}: {finding.message}" + (f". Fix: {finding.fix}" if finding.fix else "")


def _location(path: str, line: int, column: int) -> dict[str, Any]:
    region = {"startLine": max(line, 1), "startColumn": max(column, 1)}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": region}}


def _uri(path: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415  # 10 ms that no other format needs

    return quote(path) or "-"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.documentation},
        "help": {"text": f"{rule.documentation}\n\nkvplan explain {rule.id}"},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _unreadable() -> dict[str, Any]:
    text = "A file, or a part of it, cannot be read."
    return {
        "id": _UNREADABLE,
        "name": "Unreadable",
        "shortDescription": {"text": text},
        "fullDescription": {"text": text},
        "help": {"text": text},
        "defaultConfiguration": {"level": "error"},
    }
