"""`kvplan schema [NAME]`: the JSON schema of an output."""

from enum import StrEnum
from typing import Annotated

import typer

from kvplan.errors import OK


class Name(StrEnum):
    """The outputs that have a schema."""

    audit = "audit"
    size = "size"
    size_plans = "size-plans"
    config = "config"
    check = "check"
    size_fit = "size-fit"
    fit = "fit"
    metrics = "metrics"
    verify = "verify"
    simulate = "simulate"


def command(name: Annotated[Name, typer.Argument(help="The output.")] = Name.size) -> int:
    """Print the JSON schema of an output."""
    from kvplan.cli.output import write_json
    from kvplan.schemas import SCHEMAS

    write_json(SCHEMAS[name.value].model_json_schema())
    return OK
