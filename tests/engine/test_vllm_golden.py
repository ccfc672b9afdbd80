"""Every built-in checkpoint against vLLM 0.33's own planner: blocks, tokens, concurrency, groups and refusals."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

import kvplan

GOLDEN = Path(__file__).parent.parent / "golden"


def rows(name: str) -> dict[str, list[dict]]:
    found = defaultdict(list)
    data = (GOLDEN / name).read_bytes()
    for row in map(json.loads, (gzip.decompress(data) if name.endswith(".gz") else data).splitlines()):
        found[row["model"]].append(row)
    return found


KV = rows("vllm_0.33_kv.jsonl.gz")
REFUSED = rows("vllm_0.33_tp_refused.jsonl")


def planned(row: dict) -> kvplan.Plan:
    return kvplan.plan(
        row["model"],
        engine="vllm@0.33",
        gpu=row["gpu"],
        tensor_parallel_size=row["tp"],
        kv_cache_dtype=row["kv_cache_dtype"],
        kv_cache_memory_bytes=row["available"],
        max_model_len=row["max_model_len"],
        **row["flags"],
    )


@pytest.mark.parametrize("model", sorted(KV))
def test_pool_is_the_engines(model):
    for row in KV[model]:
        plan = planned(row)
        case = {k: row[k] for k in ("gpu", "tp", "kv_cache_dtype", "available", "max_model_len", "flags")}
        if row["refused"]:
            assert plan.verdict == "refused", case
            continue
        have = (
            plan.kv.num_blocks,
            plan.kv.block_size,
            plan.kv.tokens,
            plan.kv.max_concurrency,
            plan.kv.bytes_per_block,
        )
        want = tuple(row[k] for k in ("num_blocks", "block_size", "tokens", "max_concurrency", "bytes_per_block"))
        assert have == want, case
        groups = sorted([g.layers, g.block_size, g.blocks_per_request] for g in plan.kv.groups)
        assert groups == sorted([layers, size, blocks] for layers, size, _, blocks in row["groups"]), case
        assert plan.verdict == "fits", case


@pytest.mark.parametrize("model", sorted(REFUSED))
def test_tensor_parallel_sizes_that_the_engine_refuses(model):
    for row in REFUSED[model]:
        plan = kvplan.plan(model, gpu="h100-sxm", tensor_parallel_size=row["tp"], kv_cache_memory_bytes="40 GiB")
        assert plan.verdict == "refused", row
        assert any(reason.code.endswith("not_divisible") for reason in plan.reasons), plan.reasons


def test_the_goldens_are_many():
    assert len(KV) >= 80
    assert sum(map(len, KV.values())) >= 1500


def test_mamba_heads_that_do_not_make_up_the_width_are_the_config_class_s_refusal(tmp_path):
    config = {
        "architectures": ["FalconH1ForCausalLM"],
        "model_type": "falcon_h1",
        "num_hidden_layers": 2,
        "hidden_size": 1024,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "mamba_n_heads": 24,
        "mamba_d_head": 64,
        "mamba_d_ssm": 1024,
        "mamba_n_groups": 1,
        "mamba_d_state": 128,
        "mamba_d_conv": 4,
        "vocab_size": 32784,
        "max_position_embeddings": 16384,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    plan = kvplan.plan(tmp_path, gpu="h100-sxm")
    assert [reason.code for reason in plan.reasons] == ["config_rejected"]
