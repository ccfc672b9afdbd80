"""`kvplan gpus [NAME]`: the catalogue of cards."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kvplan.errors import OK
from kvplan.units import GIB, quantity

if TYPE_CHECKING:
    from kvplan.hardware import Gpu

HEADER = ("name", "memory", "bandwidth", "bf16", "compute", "known as")


class Format(StrEnum):
    """How the answer is written."""

    text = "text"
    json = "json"


def command(
    name: Annotated[str | None, typer.Argument(help="One card, by any of its names.", show_default=False)] = None,
    output: Annotated[Format, typer.Option("--format", help="How to write the answer.")] = Format.text,
) -> int:
    """List the cards, or one of them with its sources; the memory is what the driver reports, `~` marks estimates."""
    from dataclasses import asdict

    from kvplan.cli.output import write_json, write_lines
    from kvplan.hardware import find_gpu, gpus
    from kvplan.render.table import table

    cards = [find_gpu(name)] if name is not None else gpus()
    if output is Format.json:
        write_json({"schema": 1, "gpus": [asdict(card) for card in cards]})
        return OK
    if name is not None:
        write_lines(_one(cards[0]))
        return OK
    rows = [
        (
            card.name,
            f"{quantity(card.memory_bytes / GIB, 2)} GiB{'' if card.memory_basis == 'measured' else ' ~'}",
            f"{quantity(card.bandwidth / 10**9, 0)} GB/s{_mark(card, 'bandwidth')}" if card.bandwidth else "-",
            _tflops(card, "bf16"),
            ".".join(map(str, card.compute_capability)) if card.compute_capability else "-",
            card.driver_name or card.label,
        )
        for card in cards
    ]
    write_lines(table(HEADER, rows, right=frozenset({1, 2, 3})))
    return OK


def _tflops(card: "Gpu", dtype: str) -> str:
    value = card.tflops.get(dtype)
    return f"{quantity(value, 0)} TFLOP/s{_mark(card, f'{dtype}_tflops')}" if value else "-"


def _mark(card: "Gpu", figure: str) -> str:
    return "" if card.is_sure(figure) else " ~"


def _one(card: "Gpu") -> list[str]:
    """Return one card, a figure a line, each with its source."""
    from kvplan.render.table import table

    sure = card.memory_basis == "measured"
    low, high = (quantity(end / GIB, 1) for end in (card.start_loss_low, card.start_loss_high))
    lost = f"{quantity(card.start_loss_bytes / GIB, 2)} GiB" if card.start_loss_high - card.start_loss_low < GIB else ""
    rows = [
        ("memory", f"{quantity(card.memory_bytes / GIB, 2)} GiB{'' if sure else ' ~'}", card.memory_source),
        ("gone at the start", lost or f"{low} to {high} GiB", card.start_loss_source),
    ]
    figures = {"bandwidth": f"{quantity((card.bandwidth or 0) / 10**9, 0)} GB/s"}
    figures |= {f"{dtype}_tflops": f"{quantity(value, 0)} TFLOP/s" for dtype, value in card.tflops.items()}
    figures |= {"sm_count": f"{card.sm_count}", "l2_mib": f"{card.l2_mib or 0:g} MiB"}
    labels = {"sm_count": "multiprocessors", "l2_mib": "L2 cache"}
    rows += [
        (labels.get(figure, figure.removesuffix("_tflops")), f"{text}{_mark(card, figure)}", card.sources[figure])
        for figure, text in figures.items()
        if figure in card.sources
    ]
    compute = f", compute {'.'.join(map(str, card.compute_capability))}" if card.compute_capability else ""
    return [f"{card.name}   {card.label}, {card.driver_name or card.vendor}{compute}", "", *table(("",) * 3, rows)[1:]]
