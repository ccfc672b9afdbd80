"""An audit as text and as JSON: predicted beside printed, and which line explains the difference."""

from __future__ import annotations

from typing import Any

from kvplan.audit.compare import Audit, Row
from kvplan.render.table import table
from kvplan.render.text import where
from kvplan.units import quantity


def audit_text(found: Audit) -> list[str]:
    """Return the lines of an audit."""
    plan = found.plan
    lines = [f"{plan.model.id}   {where(plan)}{' (card by its memory)' if found.gpu_assumed else ''}", ""]
    header = ("", "predicted", "printed", "difference", "")
    lines += table(header, [_cells(row) for row in found.rows], right=frozenset({1, 2, 3}))
    lines += ["", *(f"  {text}" for text in _verdict(found))]
    lines += [f"  note: {told}: not read, as no start prints it" for told in found.log.unread]
    if found.missing:
        lines.append(f"  note: the log does not print {', '.join(found.missing)}")
    return lines


def audit_object(found: Audit) -> dict[str, Any]:
    """Return the object of `kvplan audit LOG --format json`."""
    plan, log = found.plan, found.log
    return {
        "schema": 1,
        "model": plan.model.id,
        "engine": {"name": plan.engine, "version": plan.engine_version, "printed": log.release},
        "gpu": None if plan.gpu is None else {"name": plan.gpu.name, "assumed": found.gpu_assumed},
        "rows": [
            {
                "name": row.name,
                "unit": row.unit,
                "predicted": row.predicted,
                "low": row.low,
                "high": row.high,
                "printed": row.printed,
                "difference": row.difference,
                "holds": row.holds,
            }
            for row in found.rows
        ],
        "explains": found.explains,
        "refusal": {"printed": log.refusal, "predicted": [reason.code for reason in plan.reasons]},
        "agrees": found.agrees,
        "missing": list(found.missing),
        "unread": list(log.unread),
    }


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    digits = 0 if row.unit in ("tokens", "bytes", "count") else 2
    told = {True: "", False: "outside of the interval", None: ""}[row.holds]
    difference = row.difference
    rounded = 0.0 if difference is None else round(difference, digits) + 0.0
    signed = "" if difference is None else f"{'+' if rounded > 0 else ''}{quantity(rounded, digits)}"
    return (row.name, _figure(row.predicted, digits), _figure(row.printed, digits), signed, told)


def _figure(value: float | None, digits: int) -> str:
    return "?" if value is None else quantity(value, digits)


def _verdict(found: Audit) -> list[str]:
    log = found.log
    if log.refusal is not None:
        predicted = next((reason for reason in found.plan.reasons if reason.code == log.refusal), None)
        told = "as predicted" if predicted is not None else "which kvplan does not predict"
        lines = [f"refused: {log.refusal}, {told}"]
        return [*lines, f"next: {predicted.hint}"] if predicted is not None and predicted.hint else lines
    if found.agrees is None:
        return ["the log prints no pool to compare with"]
    return [*_pool(found), *(_beyond(row) for row in found.pool if row.holds is False and row.name != "kv cache")]


def _beyond(row: Row) -> str:
    digits = 0 if row.unit == "tokens" else 2
    return f"{row.name}: the predicted pool holds {_figure(row.low, digits)} to {_figure(row.high, digits)}"


def _pool(found: Audit) -> list[str]:
    pool = next((row for row in found.rows if row.name == "kv cache"), None)
    if pool is None or pool.difference is None or pool.printed is None:
        return []
    expected = pool.printed - pool.difference
    share = pool.difference / expected if expected else 0.0
    line = f"pool: {quantity(pool.difference, 2)} GiB beside the prediction ({quantity(100 * share, 2)} %)"
    return [line + (f", most of it in: {found.explains}" if found.explains else "")]
