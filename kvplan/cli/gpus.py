"""`kvplan gpus [NAME]`: the catalogue of cards."""

from enum import StrEnum
from typing import Annotated

import typer

from kvplan.errors import OK
from kvplan.units import GIB, quantity

HEADER = ("name", "memory", "bandwidth", "bf16", "compute", "known as")


class Format(StrEnum):
    """How the answer is written."""

    text = "text"
    json = "json"


def command(
    name: Annotated[str | None, typer.Argument(help="One card, by any of its names.", show_default=False)] = None,
    output: Annotated[Format, typer.Option("--format", help="How to write the answer.")] = Format.text,
) -> int:
    """List the cards, or one of them, with the memory that the driver really reports."""
    from dataclasses import asdict

    from kvplan.cli.output import write_json, write_lines
    from kvplan.hardware import find_gpu, gpus
    from kvplan.render.table import table

    cards = [find_gpu(name)] if name is not None else gpus()
    if output is Format.json:
        write_json({"schema": 1, "gpus": [asdict(card) for card in cards]})
        return OK
    rows = [
        (
            card.name,
            f"{quantity(card.memory_bytes / GIB, 2)} GiB{'' if card.memory_basis == 'measured' else ' ~'}",
            f"{quantity(card.bandwidth / 10**9, 0)} GB/s" if card.bandwidth else "-",
            f"{quantity(card.tflops['bf16'], 0)} TFLOP/s" if card.tflops.get("bf16") else "-",
            ".".join(map(str, card.compute_capability)) if card.compute_capability else "-",
            card.driver_name or card.label,
        )
        for card in cards
    ]
    write_lines(table(HEADER, rows, right=frozenset({1, 2, 3})))
    return OK
