"""The rules as a page of Markdown, an anchor each; docs/rules.md is this page."""

from __future__ import annotations

from kvplan.checks.registry import rules


def rules_markdown() -> list[str]:
    """Return the lines of the page."""
    lines = ["# The rules of `kvplan check`", ""]
    for rule in rules():
        lines += [
            f'<a id="{rule.id.lower()}"></a>',
            "",
            f"## {rule.id} {rule.name}",
            "",
            f"Severity: {rule.severity.word}.",
            "",
        ]
        lines += [*(_listed(line) for line in rule.documentation.split("\n")), ""]
    return lines[:-1]


def _listed(line: str) -> str:
    return f"- {line}" if line.startswith(("Bad: ", "Good: ", "Fix: ")) else line
