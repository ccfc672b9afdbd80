"""Several plans side by side: one row each, the columns that differ first."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.planner import Plan
from kvplan.render.text import kv_dtype_name, verdict_word
from kvplan.units import gib, quantity

HEADER = ("gpu", "tp", "kv dtype", "length", "kv cache", "tokens", "requests", "verdict")
RIGHT = frozenset({1, 3, 4, 5, 6})


def row(plan: Plan) -> tuple[str, ...]:
    """Return one plan as the cells of HEADER; a refusal says why in the last."""
    kv = plan.kv
    name = "-"
    if plan.gpu is not None:
        name = f"{plan.gpu_count} x {plan.gpu.name}" if plan.gpu_count > 1 else plan.gpu.name
    return (
        name,
        str(plan.engine_settings.get("tensor_parallel_size") or plan.engine_settings.get("tp_size", 1)),
        kv_dtype_name(plan),
        f"{kv.max_model_len:,}",
        gib(plan.budget.kv_bytes) if plan.budget.kv_bytes is not None else "-",
        f"{kv.tokens:,}" if kv.tokens is not None else "-",
        quantity(kv.max_concurrency, 2) if kv.max_concurrency is not None else "-",
        _verdict(plan),
    )


def rows(plans: Sequence[Plan]) -> list[tuple[str, ...]]:
    """Return the rows of several plans."""
    return [row(plan) for plan in plans]


def _verdict(plan: Plan) -> str:
    if plan.verdict != "refused":
        return verdict_word(plan)
    reason = plan.reasons[0]
    return f"refused: {reason.hint if reason.code == 'max_model_len_does_not_fit' else reason.message}"
