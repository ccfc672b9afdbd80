"""GitHub's workflow commands: an annotation on the line of each finding, the gravest first (ten a step are shown)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.finding import Report, Severity

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def workflow_commands(report: Report) -> list[str]:
    """Return one command a finding and one a file that cannot be read."""
    return list(_annotations(report))


def _annotations(report: Report) -> Iterator[str]:
    for problem in report.problems:
        if problem.grave:
            yield _command("error", report.path(problem.file), problem.place, "kvplan", problem.message)
    for finding in sorted(report.findings, key=lambda f: -f.severity):
        title = f"{finding.rule} {finding.name}"
        text = finding.message + (f"\nfix: {finding.fix}" if finding.fix else "")
        yield _command(_LEVELS[finding.severity], report.path(finding.file), finding.place, title, text)


def _command(level: str, path: str, place: tuple[int, int], title: str, message: str) -> str:
    line, column = place
    properties = f"file={_property(path)},line={line},col={column},title={_property(title)}"
    return f"::{level} {properties}::{_message(message)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
