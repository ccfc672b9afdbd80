"""KVP012: the plan is not the one in kvplan.lock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.registry import Hit, check

_SHOWN = (
    "verdict", "model", "engine", "gpu", "gpus", "max_model_len", "tokens", "max_concurrency", "kv_bytes",
    "weights_bytes_per_rank",
)  # fmt: skip


@check("KVP012", "plan-drift", Severity.WARNING)
def rule(case: Case) -> Iterator[Hit]:
    """The plan is not the one in kvplan.lock.

    The lock holds what was planned when it was written. A difference means that the manifest, the model or kvplan has
    changed since, and nobody has looked at what that does to memory. Without a lock the rule is silent.

    Bad: a manifest with twice the context length beside an old lock.
    Good: the same after `kvplan lock`.
    Fix: read `kvplan diff`, then run `kvplan lock` and commit the file.
    """
    totals, locked = case.totals, case.locked
    if totals is None or case.lock_version is None:
        return
    place = case.deployment.place
    if locked is None:
        yield Hit(place, "the deployment is not in kvplan.lock", "kvplan lock")
        return
    changed = [name for name in _SHOWN if locked.get(name) != totals[name]]
    if changed:
        what = ", ".join(f"{name} {_said(locked.get(name))} -> {_said(totals[name])}" for name in changed[:3])
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        yield Hit(place, f"the plan has moved from kvplan.lock: {what}{more}", "kvplan lock")


def _said(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)[:60]
