"""`kvplan explain [RULE]`: the documentation of a rule, or the list of rules."""

from enum import StrEnum
from typing import Annotated

import typer

from kvplan.errors import OK


class Format(StrEnum):
    """How the answer is written."""

    text = "text"
    markdown = "markdown"


def command(
    rule: Annotated[str | None, typer.Argument(help="A rule's id or name, as KVP001.", show_default=False)] = None,
    output: Annotated[Format, typer.Option("--format", help="markdown: the page of all rules.")] = Format.text,
) -> int:
    """Say what a rule looks at, what is bad and what is good, and how to mend it."""
    from kvplan.checks.registry import find_rule, rules
    from kvplan.cli.output import write_lines
    from kvplan.render.table import table

    if output is Format.markdown:
        from kvplan.render.rules import rules_markdown

        write_lines(rules_markdown())
    elif rule is None:
        rows = [(each.id, each.name, each.severity.word, each.title.rstrip(".")) for each in rules()]
        write_lines(table(("rule", "name", "severity", "what"), rows))
    else:
        found = find_rule(rule)
        write_lines([f"{found.id} {found.name} ({found.severity.word})", "", *found.documentation.split("\n")])
    return OK
