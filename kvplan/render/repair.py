"""What makes a deployment start, as a terminal or a Markdown page shows it below the plan."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from kvplan.fit.ask import flag, shortage
from kvplan.fit.change import Change, Remedy, Repair
from kvplan.render.json import plan_object
from kvplan.units import gib, quantity


def repair_lines(repair: Repair) -> list[str]:
    """Return the lines without indent: the change, the others that do, and the limits as the deployment stands."""
    return [*_change(repair), *_single(repair), *_limits(repair)]


def _change(repair: Repair) -> list[str]:
    if not repair.needed:
        return ["fit: nothing has to change"]
    if repair.remedy is not None:
        return [f"fit: {_words(repair.remedy, repair.plan.engine)}", f"then: {_outcome(repair.remedy)}"]
    names = ", ".join(flag(repair.plan.engine, name) for name in repair.knobs)
    lines = [f"fit: no change of {names} makes it fit"]
    if repair.closest is not None:
        closest = repair.closest
        lines.append(
            f"closest: {_words(closest, repair.plan.engine)}, which lacks {gib(int(shortage(closest.plan)), 2)}"
        )
    return lines


def _words(remedy: Remedy, engine: str) -> str:
    return ", ".join(f"{flag(engine, c.name)} {shown(c.before)} -> {shown(c.after)}" for c in remedy.changes)


def shown(value: Any) -> str:
    """Write a flag's value: plain numbers, so that it can be copied."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _outcome(remedy: Remedy) -> str:
    kv = remedy.plan.kv
    if kv.tokens is None or kv.max_concurrency is None:
        return "it starts"
    return f"{kv.tokens:,} tokens, {quantity(kv.max_concurrency, 2)} requests of {kv.max_model_len:,}"


def _single(repair: Repair) -> list[str]:
    others = [found for found in repair.single if found != repair.remedy]
    return [f"or: {_words(found, repair.plan.engine)}: {_outcome(found)}" for found in others]


def _limits(repair: Repair) -> list[str]:
    plan, limits = repair.plan, repair.limits
    bounds = {"max_model_len": limits.longest, "max_num_seqs": limits.sequences}
    if limits.longest == 0:
        return ["as it stands: not one token fits"]
    told = [f"{flag(plan.engine, name)} up to {most}" for name, most in bounds.items() if most]
    if not repair.needed and plan.kv.max_concurrency is not None:
        told.append(f"{quantity(plan.kv.max_concurrency, 2)} requests of {plan.kv.max_model_len:,} at once")
    return [f"as it stands: {', '.join(told)}"] if told else []


def repair_object(repair: Repair) -> dict[str, Any]:
    """Return what `--fit` adds to the object of `kvplan size --format json`, under "fit"."""
    return {
        "order": list(repair.knobs),
        "needed": repair.needed,
        "change": _remedy(repair.remedy),
        "single": [_remedy(found) for found in repair.single],
        "closest": _remedy(repair.closest),
        "limits": {"max_model_len": repair.limits.longest, "max_num_seqs": repair.limits.sequences},
    }


def _remedy(remedy: Remedy | None) -> dict[str, Any] | None:
    if remedy is None:
        return None
    lacking = shortage(remedy.plan)
    return {
        "changes": _changes(remedy.changes, remedy.plan.engine),
        "verdict": remedy.plan.verdict,
        "lacking_bytes": int(lacking) if lacking < inf else None,
        "kv": plan_object(remedy.plan)["kv"],
    }


def _changes(changes: Sequence[Change], engine: str) -> list[dict[str, Any]]:
    return [{"name": c.name, "flag": flag(engine, c.name), "before": c.before, "after": c.after} for c in changes]
