"""Predicted beside measured, line by line, and the verdict that follows.

A verification is confirmed where everything holds: each planned block allocated, filled and read back; the worst row
within its bound; each measured memory line within the tolerance, and all together within what the engine may use; the
attention step within 10 % of the roofline. Where the kernels cannot decode every layer, the best is that the memory is
confirmed. A rehearsal confirms nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kvplan.ledger import Basis
from kvplan.planner import Plan
from kvplan.units import gib
from kvplan.verify.order import Order
from kvplan.verify.pool import Pool
from kvplan.verify.steps import Decoded, Measured

Verdict: TypeAlias = Literal["confirmed", "memory confirmed", "not confirmed", "rehearsed"]
TOLERANCE = 0.01  # of the card's memory, for each measured line
ROOFLINE = 1.10  # the step may take this much of the time that the measured bandwidth allows
BOUNDS = {"float16": 1e-3, "bfloat16": 6e-3}  # relative error of the worst row, by output dtype


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """One line of the ledger: what was predicted, what was seen, and whether the difference matters.

    `tolerance` in bytes; None where nothing was measured to compare (basis `given`) or no prediction is made.
    """

    name: str
    predicted: int
    measured: int
    basis: Basis
    tolerance: int | None
    ok: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """One condition of the verdict, in words, and the share of its bound that is used up (above 1: it fails)."""

    words: str
    used: float

    @property
    def ok(self) -> bool:
        """Whether it holds."""
        return self.used <= 1


@dataclass(frozen=True, slots=True)
class Result:
    """What one rank found."""

    rank: int
    blocks: int
    lines: tuple[MemoryLine, ...]
    worst_row: float | None
    bound: float | None
    dtype: str | None
    steps: tuple[Decoded, ...]
    read_bandwidth: float
    copy_bandwidth: float
    remaining: int
    undecodable: tuple[str, ...]
    verdict: Verdict
    reason: str
    notes: tuple[str, ...]


def compare(plan: Plan, pool: Pool, order: Order, measured: Measured, *, tolerance: float, rank: int = 0) -> Result:
    """Return a rank's result; `tolerance` is a share of the card's memory."""
    facts = measured.facts
    allowed = round(tolerance * facts.memory.total)
    lines = _lines(plan, order, measured, allowed)
    output = "float16" if order.dtype == "float16" else "bfloat16"
    worst = max(measured.rows) if measured.rows else None
    figures = [*_memory_figures(lines, order, measured), *_decode_figures(worst, BOUNDS[output], measured)]
    verdict, reason = _verdict(figures, pool, order, rehearsal=facts.rehearsal)
    return Result(
        rank=rank,
        blocks=order.blocks,
        lines=lines,
        worst_row=worst,
        bound=BOUNDS[output] if worst is not None else None,
        dtype=output if worst is not None else None,
        steps=tuple(measured.decoded),
        read_bandwidth=measured.read_bandwidth,
        copy_bandwidth=measured.copy_bandwidth,
        remaining=measured.remaining,
        undecodable=pool.undecodable,
        verdict=verdict,
        reason=reason,
        notes=_notes(measured),
    )


def _lines(plan: Plan, order: Order, measured: Measured, allowed: int) -> tuple[MemoryLine, ...]:
    predicted = {line.name: line.bytes for line in plan.budget.lines}
    rehearsal = measured.facts.rehearsal

    def line(name: str, expected: int, seen: int) -> MemoryLine:
        return MemoryLine(name, expected, seen, "measured", allowed, abs(expected - seen) <= allowed)

    activations = order.probe.peak() if rehearsal else predicted["activations"]
    lines = (
        MemoryLine("others", 0, measured.others, "measured", None, ok=True),
        line("context", order.context, measured.context),
        *(MemoryLine(name, size, measured.ballast[name], "given", None, ok=True) for name, size in order.ballast),
        line("activations", activations, measured.activations),
        line("non_torch", order.non_torch, measured.grown),
        line("kv_cache", order.pool_bytes, measured.pool),
    )
    # The plan hands out its whole share, the pool being what is left, so the sum may exceed it by the tolerance. What
    # others hold and what the context takes lie outside of that share, as they do in the engine.
    share, taken = measured.others + order.context + order.requested, sum(one.measured for one in lines)
    return (*lines, MemoryLine("total", share, taken, "measured", allowed, taken <= share + allowed))


def _memory_figures(lines: tuple[MemoryLine, ...], order: Order, measured: Measured) -> list[Figure]:
    wrong, filled = measured.wrong_words, measured.filled_bytes
    back = f"{order.blocks:,} blocks filled and read back, {wrong:,} words wrong"
    *judged, total = (line for line in lines if line.tolerance is not None)
    worst = max(judged, key=lambda line: abs(line.predicted - line.measured))
    return [
        Figure(back, math.inf if wrong or not filled else 0.0),
        Figure(
            f"{worst.name} measured {gib(worst.measured, 2)}, predicted {gib(worst.predicted, 2)}",
            abs(worst.predicted - worst.measured) / (worst.tolerance or 1),
        ),
        Figure(
            f"{gib(total.measured, 2)} taken in all, where {gib(total.predicted, 2)} are the plan's",
            max(0, total.measured - total.predicted) / (total.tolerance or 1),
        ),
    ]


def _decode_figures(worst: float | None, bound: float, measured: Measured) -> list[Figure]:
    if worst is None or not measured.decoded:
        return []
    step = measured.decoded[0]
    figures = [Figure(f"worst row off by {worst:.1e}, bound {bound:.0e}", worst / bound)]
    if not measured.facts.rehearsal:
        taken = step.timing.seconds / step.roofline
        words = f"attention step {step.timing.seconds * 1e3:.2f} ms, roofline {step.roofline * 1e3:.2f} ms"
        figures.append(Figure(words, taken / ROOFLINE))
    return figures


def _verdict(figures: list[Figure], pool: Pool, order: Order, *, rehearsal: bool) -> tuple[Verdict, str]:
    failed = [figure for figure in figures if not figure.ok]
    if failed:
        return "not confirmed", failed[0].words
    if pool.undecodable or not order.layers:
        missing = ", ".join(pool.undecodable) or "a model without attention"
        blocks = figures[0].words
        return ("rehearsed" if rehearsal else "memory confirmed"), f"{blocks}; the kernels do not decode {missing}"
    nearest = max(figures, key=lambda figure: figure.used)
    return ("rehearsed" if rehearsal else "confirmed"), nearest.words


def _notes(measured: Measured) -> tuple[str, ...]:
    notes = []
    if measured.facts.held_bytes is None and not measured.facts.rehearsal:
        notes.append("no driver tool says what others hold: it is counted as context")
    if measured.tuned != 1.0:
        notes.append(f"--tune: the fastest tiling takes 1/{measured.tuned:.2f} of the table's time")
    if measured.companions:
        listed = ", ".join(str(process.pid) for process in measured.companions[:6])
        notes.append(
            f"{len(measured.companions)} other processes on the card (pid {listed}): timings may be theirs too"
        )
    return tuple(notes)


def decides(results: Sequence[Result]) -> Result:
    """Return the rank that decides for all: the one with the worst verdict, the fewest blocks among equals."""
    order: tuple[Verdict, ...] = ("not confirmed", "memory confirmed", "rehearsed", "confirmed")
    return min(results, key=lambda result: (order.index(result.verdict), result.blocks, result.rank))
