"""What switches a rule off: a comment in the manifest, an annotation of the object, an entry of kvplan.yaml.

`# kvplan: ignore[KVP001] reason` counts on the line of the finding, on the line above it, and on the line where the
deployment begins or the line above that. Without brackets it switches all rules off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvplan.checks.case import Case
from kvplan.checks.finding import Finding
from kvplan.config import Config

_COMMENT = re.compile(r"#\s*kvplan:\s*ignore(?:\[([^\]]{0,200})\])?", re.ASCII)


def suppressed(finding: Finding, case: Case, texts: Mapping[str, str], config: Config) -> bool:
    """Say whether a finding is switched off."""
    found = case.deployment
    if finding.rule in found.ignored:
        return True
    if any(entry.rule == finding.rule and entry.matches(case.file, found.where) for entry in config.ignore):
        return True
    lines = texts.get(found.file, "").split("\n")
    return any(_ignores(finding.rule, lines, line) for line in (finding.place.line, found.place.line))


def _ignores(rule: str, lines: list[str], number: int) -> bool:
    """Look at a line, and at the one above where that is nothing but a comment."""
    here = lines[number - 1] if 0 < number <= len(lines) else ""
    above = lines[number - 2] if 1 < number <= len(lines) + 1 else ""
    return _said(rule, here) or (above.lstrip().startswith("#") and _said(rule, above))


def _said(rule: str, line: str) -> bool:
    found = _COMMENT.search(line)
    return found is not None and (found[1] is None or rule in found[1].replace(",", " ").split())
