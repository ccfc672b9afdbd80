"""Weights of a rank against what vLLM 0.33's own model classes allocate: to the byte, and by dtype."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

import kvplan
from kvplan.engine.vllm.capacity import partition
from kvplan.model.read import read_model
from kvplan.model.weights import Ranks, inventory, weigh
from kvplan.model.weights.inventory import parts_of, quantised, scheme_for
from kvplan.model.weights.placement import rank_bytes, share
from kvplan.model.weights.tensors import MODEL, Role, item_bytes
from kvplan.sources.checkpoint import Checkpoint

GOLDEN = Path(__file__).parents[2] / "golden"
# The engine's own figure hangs on which model was built before in the process: it caches rope tables by their
# parameters, but for the dtype. A fresh process keeps the table of these in float32.
CACHED_TABLES = {
    "deepseek-ai/DeepSeek-V3.2": 0.0005,
    "moonshotai/Kimi-K2.5": 0.001,
    "nvidia/DeepSeek-V3.2-NVFP4": 0.0005,
    "nvidia/Kimi-K2.5-NVFP4": 0.0005,
}


def rows(name: str) -> list[dict]:
    return [json.loads(line) for line in gzip.decompress((GOLDEN / name).read_bytes()).splitlines()]


BUILT_IN = rows("vllm_0.33_weights.jsonl.gz")
MADE = rows("vllm_0.33_weights_made.jsonl.gz")


def by_dtype(model, ranks, dtype) -> Counter[str]:
    found: Counter[str] = Counter()
    for tensor in quantised(parts_of(model), scheme_for(model, capability=(9, 0))):
        if tensor.holder != "checkpoint":
            count = 1 if tensor.layers is None else len(tensor.layers)
            size = count * share(tensor, ranks) * item_bytes(tensor.dtype, dtype)
            found[dtype if tensor.dtype == MODEL else tensor.dtype] += size
    return +found


@pytest.mark.parametrize("name", sorted({row["model"] for row in BUILT_IN} - set(CACHED_TABLES)))
def test_built_ins_take_what_the_engine_allocates(name):
    model = kvplan.load_model(name)
    for row in (row for row in BUILT_IN if row["model"] == name):
        ranks = Ranks(tensor=row["tp"])
        assert weigh(model, ranks, dtype=row["dtype"]).line.bytes == row["params"] + row["buffers"], row["tp"]
        assert by_dtype(model, ranks, row["dtype"]) == Counter(row["by_dtype"])


@pytest.mark.parametrize("name", sorted(CACHED_TABLES))
def test_built_ins_whose_tables_hang_on_what_was_built_before(name):
    model = kvplan.load_model(name)
    for row in (row for row in BUILT_IN if row["model"] == name):
        size = weigh(model, Ranks(tensor=row["tp"]), dtype=row["dtype"]).line.bytes
        assert size == pytest.approx(row["params"] + row["buffers"], rel=CACHED_TABLES[name])


@pytest.mark.parametrize("row", MADE, ids=lambda row: row["name"])
def test_made_up_models_take_what_the_engine_allocates(row):
    """Class defaults, quantised forms, pipeline stages and expert parallelism."""
    model = read_model(Checkpoint(row["name"], "file", row["config"], quant_config=row["side"]))
    for tp, dp, ep, pp, stage, size in row["ranks"]:
        ranks = Ranks(tp, dp, ep, tuple(partition(len(model.shape.layers), pp)))
        found = weigh(model, ranks, dtype=row["dtype"])
        assert found.line.basis == "exact"
        if pp == 1:
            assert found.line.bytes == size, (tp, dp, ep)
        else:
            assert stage_bytes(model, ranks, row["dtype"])[stage] == size, (pp, stage)


def stage_bytes(model, ranks, dtype) -> list[int]:
    return [roles.total() for roles in rank_bytes(quantised(parts_of(model), scheme_for(model)), ranks, dtype)]


def test_buffers_are_those_that_no_checkpoint_holds():
    """Rope tables and scales are the difference of what is allocated and what a checkpoint stores."""
    row = next(row for row in BUILT_IN if row["model"] == "meta-llama/Meta-Llama-3-8B" and row["tp"] == 1)
    model = kvplan.load_model(row["model"])
    assert weigh(model, Ranks(), dtype=row["dtype"]).roles[Role.TABLE] == row["buffers"] == 2_097_664
    stored = sum(tensor.stored_bytes("bfloat16") for tensor in inventory(model) if tensor.holder != "engine")
    assert stored == row["params"] == 16_060_522_496
