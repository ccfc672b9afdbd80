"""Built-in checkpoints against SGLang 0.5.23's own code: pools, running requests, fractions, backends and refusals."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

import kvplan

GOLDEN = Path(__file__).parents[2] / "golden"


def rows(name: str) -> dict[str, list[dict]]:
    found = defaultdict(list)
    with gzip.open(GOLDEN / name, "rt") as lines:
        for row in map(json.loads, lines):
            found[row["model"]].append(row)
    return found


POOLS = rows("sglang_0.5.23_pools.jsonl.gz")
DEFAULTS = rows("sglang_0.5.23_defaults.jsonl.gz")


def planned(row: dict, **more) -> kvplan.Plan:
    return kvplan.plan(row["model"], engine="sglang@0.5.23", gpu=row["gpu"], tp_size=row["tp"], **row["flags"], **more)


def measured(row: dict) -> dict[str, str]:
    if row["free_before_gib"] is None:
        return {}
    return {f"free_{when}_load": f"{row[f'free_{when}_gib']} GiB" for when in ("before", "after")}


@pytest.mark.parametrize("model", sorted(POOLS))
def test_pools_are_the_engines(model):
    for row in POOLS[model]:
        plan = planned(row, kv_cache_dtype=row["kv_cache_dtype"], **measured(row))
        case = {k: row[k] for k in ("gpu", "tp", "kv_cache_dtype", "flags", "free_before_gib", "free_after_gib")}
        if row["refused"]:
            assert plan.verdict == "refused", case
            continue
        assert plan.reasons == (), case
        pools = {pool.name: pool.size for pool in plan.kv.pools}
        have = (plan.kv.tokens, plan.kv.max_running_requests, pools.get("window"), pools.get("states"))
        assert have == (row["tokens"], row["running"], row["window"], row["slots"]), case
        shown = plan.engine_settings
        assert (shown["mem_fraction_static"], shown["page_size"]) == (row["fraction"], row["page"]), case
        # the engine's own run took free memory as decimals of a GiB, here it is read as whole bytes
        assert abs(plan.budget.kv_bytes - row["available"]) <= 2, case


@pytest.mark.parametrize("model", sorted(DEFAULTS))
def test_defaults_are_the_engines(model):
    spec = kvplan.load_model(model)
    for row in DEFAULTS[model]:
        plan = planned(row | {"model": spec})
        if row["refused"]:
            assert plan.verdict == "refused"
            continue
        names = ("mem_fraction_static", "chunked_prefill_size", "attention_backend", "page_size")
        have = tuple(plan.engine_settings[name] for name in names)
        assert have == (row["fraction"], row["chunk"], row["backend"], row["page"]), {
            k: row[k] for k in ("gpu", "tp", "flags")
        }


def test_the_goldens_are_many():
    assert sum(map(len, POOLS.values())) >= 3000
    assert sum(map(len, DEFAULTS.values())) >= 1700
    assert len(POOLS) >= 120
