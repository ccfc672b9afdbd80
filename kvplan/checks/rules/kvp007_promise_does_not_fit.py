"""KVP007: the load that kvplan.yaml promises does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.registry import Hit, check
from kvplan.units import quantity

_HALF = 1.9  # fp8 halves a 16-bit cache, but for pages that are rounded up


@check("KVP007", "promise-does-not-fit", Severity.ERROR, figures=True)
def rule(case: Case) -> Iterator[Hit]:
    """The load that kvplan.yaml promises does not fit.

    `workload: {concurrency: 64, context_p95: 8k}` promises that 64 requests of 8,000 tokens are held at the same time,
    over all replicas. Where the pools hold fewer, requests wait or are preempted.

    Bad: a promise of 64 such requests where the pool holds 40 of them.
    Good: the same promise with `--kv-cache-dtype fp8`, or with a second replica.
    Fix: the change that is enough, the cheapest first.
    """
    promise, planned = case.promise, case.promised
    held = planned.kv.max_concurrency if planned is not None else None
    if promise is None or planned is None or held is None or planned.verdict != "fits":
        return
    replicas = case.deployment.topology.replicas or 1
    running = planned.kv.max_running_requests
    most = min(held, running) if running is not None else held
    if most * replicas >= promise.concurrency:
        return
    each = f"of {promise.tokens:,} tokens" if promise.tokens is not None else "of the full length"
    where = f"{replicas} replicas hold" if replicas > 1 else "the pool holds"
    limit = "" if most == held else f" (--max-num-seqs {running})"
    yield Hit(
        case.deployment.place_of("max_num_seqs" if most != held else "max_model_len"),
        f"{promise.concurrency} requests {each} are promised, {where} {quantity(most * replicas, 1)}{limit}",
        _fix(case, held=held, most=most, replicas=replicas),
    )


def _fix(case: Case, *, held: float, most: float, replicas: int) -> str:
    promise = case.promise
    assert promise is not None, "the rule has looked"
    share = promise.concurrency / replicas
    if held >= share:
        return f"--max-num-seqs {ceil(share)}"
    wide = case.plan is not None and str(case.plan.engine_settings.get("kv_cache_dtype")) in ("auto", "bfloat16")
    if wide and held * _HALF >= share and case.deployment.engine == "vllm":
        return "--kv-cache-dtype fp8"
    return f"replicas: {ceil(promise.concurrency / most)}"
