"""JUnit XML: a case for each deployment and rule, so that what passed is seen too."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from kvplan.checks.case import Case
from kvplan.checks.finding import Finding, Report, Severity
from kvplan.checks.registry import rules
from kvplan.render.check_text import verdict
from kvplan.units import gib

# XML 1.0 has no way to write these characters, not even escaped
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """Return the document."""
    root = ET.Element("testsuites", name="kvplan")
    for case in report.cases:
        _suite(root, report, case)
    grave = [problem for problem in report.problems if problem.grave]
    if grave:
        suite = ET.SubElement(
            root, "testsuite", name="unreadable", tests=str(len(grave)), errors=str(len(grave)), failures="0"
        )
        for problem in grave:
            test = ET.SubElement(
                suite, "testcase", classname=_clean(report.path(problem.file)), name=f"line {problem.place.line}"
            )
            ET.SubElement(test, "error", message=_clean(problem.message))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, report: Report, case: Case) -> None:
    found = case.deployment
    name = _clean(f"{report.path(found.file)}::{found.where}")
    suite = ET.SubElement(root, "testsuite", name=name, tests=str(len(rules())), errors="0")
    failures = skipped = 0
    for rule in rules():
        test = ET.SubElement(suite, "testcase", classname=name, name=f"{rule.id} {rule.name}")
        test.set("file", _clean(report.path(found.file)))
        # of several findings a dashboard shows one line and one message: the gravest's
        hits = sorted((hit for hit in report.of(case) if hit.rule == rule.id), key=lambda hit: -hit.severity)
        worst = hits[0].severity if hits else None
        test.set("line", str((hits[0] if hits else found).place.line))
        told = _clean("\n".join([*map(_told, hits), "", *_ledger(case)])) if hits else ""
        blind = case.plan is None or (rule.figures and case.plan.verdict is None)
        if worst is None and rule.needs_plan and blind:
            ET.SubElement(test, "skipped", message=_clean(verdict(case)))
            skipped += 1
        elif worst is Severity.NOTE:
            ET.SubElement(test, "system-out").text = told  # advice fails nothing
        elif worst is not None:
            failure = ET.SubElement(test, "failure", type=worst.word, message=_clean(hits[0].message))
            failure.text = told
            failures += 1
    suite.set("failures", str(failures))
    suite.set("skipped", str(skipped))


def _told(finding: Finding) -> str:
    place = f"{finding.file}:{finding.place.line}:{finding.place.column}"
    return f"{place}: {finding.message}" + (f"\nfix: {finding.fix}" if finding.fix else "")


def _ledger(case: Case) -> list[str]:
    if case.plan is None:
        return [verdict(case)]
    return [*(f"{line.name:<14} {gib(line.bytes, 2):>12}" for line in case.plan.budget.lines), verdict(case)]


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
