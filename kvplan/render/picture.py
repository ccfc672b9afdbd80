"""What there is to look at, as plain figures: memory split into parts, and what a pool holds against context length.

`size` makes a Picture from plans; whoever has other figures builds one by hand. The page, the SVG and the PNG are drawn
from it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kvplan.model.describe import describe
from kvplan.planner import Plan
from kvplan.render.text import kv_dtype_name, next_step, where
from kvplan.units import binary, gib, quantity

MAX_CURVES = 6  # more lines than that are told apart by nobody: the table has them all
MAX_BARS = 24


Table: TypeAlias = "tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]"  # title, header, rows


@dataclass(frozen=True, slots=True)
class Part:
    """A slice of one GPU's memory; `estimated` where it is a fit with an interval and no arithmetic."""

    name: str
    bytes: int
    estimated: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One GPU's memory and the parts that fill it, in order; parts beyond `memory` are what does not fit."""

    label: str
    memory: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """What a pool holds at a context length: tokens, and requests of that length."""

    length: int
    tokens: int
    requests: float


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of one card, by length; a length that the engine would refuse has none."""

    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure to show large: its name, its text and what it means."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A page's worth of figures; `fits` is None where the cards differ, or none was asked for."""

    title: str
    subtitle: str
    fits: bool | None
    verdict: tuple[str, ...]
    facts: tuple[Fact, ...] = ()
    bars: tuple[Bar, ...] = ()
    curves: tuple[Curve, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    explanation: tuple[str, ...] = ()


def picture(plans: Sequence[Plan], curves: Mapping[int, Sequence[Plan]], explanation: Sequence[str] = ()) -> Picture:
    """Return the picture of plans; `curves` holds, by a plan's index, plans of the same card at other lengths."""
    first, labels = plans[0], _labels(plans)
    alone = len(plans) == 1
    return Picture(
        title=first.model.id,
        subtitle=f"{describe(first.model)}; {where(first) if alone else ', '.join(dict.fromkeys(map(_engine, plans)))}",
        fits=_common_verdict(plans),
        verdict=_verdict(first) if alone else _verdicts(plans),
        facts=_facts(first) if alone else (),
        bars=tuple(bar for plan, label in zip(plans, labels, strict=True) if (bar := _bar(plan, label)) is not None),
        curves=tuple(_curve(labels[index], of_card) for index, of_card in curves.items()),
        tables=(*([] if alone else [_side_by_side(plans, labels)]), _settings(plans)),
        notes=tuple(dict.fromkeys(_notes(plans))),
        explanation=tuple(explanation),
    )


def tensor_size(plan: Plan) -> int:
    """Return the GPUs that a layer is split over, by whatever name the engine has for it."""
    settings = plan.engine_settings
    return int(settings.get("tensor_parallel_size") or settings.get("tp_size") or 1)


def _engine(plan: Plan) -> str:
    return where(plan).rpartition(", ")[2]


def _labels(plans: Sequence[Plan]) -> list[str]:
    """Name each plan by its card, and by what else differs among the plans."""
    names = [(plan.gpu.label if plan.gpu else "no card") for plan in plans]
    told = all(tensor_size(plan) == plan.gpu_count for plan in plans)  # then the count of cards says it already
    columns = [
        [f"{plan.gpu_count} x {name}" if plan.gpu_count > 1 else name for plan, name in zip(plans, names, strict=True)],
        ["" if told else f"TP {tensor_size(plan)}" for plan in plans],
        [kv_dtype_name(plan) for plan in plans],
        [_engine(plan) for plan in plans],
        [f"{plan.kv.max_model_len:,} tokens" for plan in plans],
    ]
    shown = [columns[0], *(column for column in columns[1:] if len(set(column)) > 1)]
    return [", ".join(cells) for cells in zip(*shown, strict=True)]


def _common_verdict(plans: Sequence[Plan]) -> bool | None:
    verdicts = {plan.verdict for plan in plans}
    return {"fits": True, "refused": False, None: None}[verdicts.pop()] if len(verdicts) == 1 else None


def _verdict(plan: Plan) -> tuple[str, ...]:
    kv = plan.kv
    if plan.reasons:
        return tuple(f"{note.message}{f': {note.hint}' if note.hint else ''}" for note in plan.reasons)
    if kv.tokens is None or kv.max_concurrency is None:
        return ()
    held = f"{kv.tokens:,} tokens, {quantity(kv.max_concurrency, 2)} requests of {kv.max_model_len:,}"
    return (held, *(text.removeprefix("next: ") for text in next_step(plan)))


def _verdicts(plans: Sequence[Plan]) -> tuple[str, ...]:
    fitting = sum(plan.fits for plan in plans)
    return (f"{fitting} of {len(plans)} would start",)


def _facts(plan: Plan) -> tuple[Fact, ...]:
    kv = plan.kv
    facts = []
    if kv.tokens is not None:
        facts.append(Fact("tokens", f"{kv.tokens:,}", "in the KV cache, as the engine prints them"))
    if kv.max_concurrency is not None:
        meaning = f"of {kv.max_model_len:,} tokens at once"
        facts.append(Fact("requests", quantity(kv.max_concurrency, 2), meaning))
    if plan.budget.kv_bytes is not None:
        facts.append(Fact("kv cache", gib(plan.budget.kv_bytes), "on each GPU"))
    if kv.bytes_per_token:
        facts.append(Fact("a token", binary(kv.bytes_per_token), f"on each GPU, in {kv_dtype_name(plan)}"))
    if plan.weights_per_rank is not None:
        facts.append(Fact("weights", gib(plan.weights_per_rank), "on each GPU"))
    return tuple(facts)


def _bar(plan: Plan, label: str) -> Bar | None:
    if plan.gpu is None or plan.budget.requested_bytes is None:
        return None
    lines = [line for line in plan.budget.lines if line.bytes > 0]
    parts = tuple(Part(line.name, line.bytes, line.basis == "modelled", line.why) for line in lines)
    return Bar(label, plan.gpu.memory_bytes, parts)


def _curve(label: str, plans: Iterable[Plan]) -> Curve:
    points = [
        Point(plan.kv.max_model_len, plan.kv.tokens, plan.kv.max_concurrency)
        for plan in plans
        if plan.fits and plan.kv.tokens and plan.kv.max_concurrency
    ]
    return Curve(label, tuple(sorted(points, key=lambda point: point.length)))


def _side_by_side(plans: Sequence[Plan], labels: Sequence[str]) -> Table:
    header = ("card", "kv cache", "tokens", "requests", "verdict")
    rows = [
        (
            label,
            gib(plan.budget.kv_bytes) if plan.budget.kv_bytes is not None else "-",
            f"{plan.kv.tokens:,}" if plan.kv.tokens is not None else "-",
            quantity(plan.kv.max_concurrency, 2) if plan.kv.max_concurrency is not None else "-",
            plan.reasons[0].message if plan.reasons else plan.verdict or "-",
        )
        for plan, label in zip(plans, labels, strict=True)
    ]
    return "side by side", header, tuple(rows)


def _settings(plans: Sequence[Plan]) -> Table:
    """Return the settings that all plans share: `~` marks those that nobody gave."""
    shared = [
        (name, value)
        for name, value in plans[0].engine_settings.items()
        if all(plan.engine_settings.get(name, ...) == value for plan in plans)
    ]
    assumed = {name for plan in plans for name in plan.assumed}
    rows = [(name, f"{value}{' ~' if name in assumed else ''}") for name, value in shared]
    return "settings" if len(plans) == 1 else "settings of all", ("setting", "value"), tuple(rows)


def _notes(plans: Sequence[Plan]) -> Iterable[str]:
    for plan in plans:
        for note in plan.warnings:
            yield f"{note.message}{f' ({note.hint})' if note.hint else ''}"
