"""`kvplan models`: the checkpoints whose config is built in."""

from enum import StrEnum
from typing import Annotated

import typer

from kvplan.errors import OK


class Format(StrEnum):
    """How the answer is written."""

    text = "text"
    json = "json"


def command(
    output: Annotated[Format, typer.Option("--format", help="How to write the answer.")] = Format.text,
) -> int:
    """List the built-in checkpoints and their other names: they need no Hub."""
    from kvplan.cli.output import write_json, write_lines
    from kvplan.sources.builtin import listings

    names = {listing.id: listing.aliases for listing in listings()}
    if output is Format.json:
        write_json({"schema": 1, "models": [{"id": id_, "aliases": list(others)} for id_, others in names.items()]})
        return OK
    width = max(len(id_) for id_ in names)
    write_lines([f"  {id_:<{width}}  {', '.join(others)}".rstrip() for id_, others in names.items()])
    return OK
