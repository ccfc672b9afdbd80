"""Lengths that a rope stretches, by release, and fields of config.json that flags rewrite before it is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kvplan
from kvplan.errors import UsageError

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
POOL: dict[str, Any] = {"gpu": "h100-sxm", "kv_cache_memory_bytes": "40 GiB"}


@pytest.fixture
def folder(tmp_path):
    def write(**more: Any) -> str:
        config = {**kvplan.load_model("Qwen/Qwen3-8B").config, **more}
        (tmp_path / "config.json").write_text(json.dumps(config))
        return str(tmp_path)

    return write


def longest(model: str, release: str, **flags: Any) -> int:
    return kvplan.plan(model, engine=f"vllm@{release}", **POOL, **flags).kv.max_model_len


# vLLM 0.8.5, 0.29.0 and 0.30.0, config/model.py: YaRN is counted from its original length up to 0.29
@pytest.mark.parametrize(
    ("release", "length"), [("0.8.5", 131_072), ("0.29", 131_072), ("0.30", 40_960), ("0.33", 40_960)]
)
def test_a_yarn_config_by_release(folder, release, length):
    assert longest(folder(rope_scaling=YARN), release) == length


@pytest.mark.parametrize(
    ("rope", "old", "new"),
    [
        ({"rope_type": "linear", "factor": 2.0}, 81_920, 81_920),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 40_960, 40_960),
        ({"rope_type": "deepseek_yarn", "factor": 2.0, "original_max_position_embeddings": 8192}, 81_920, 40_960),
        ({"type": "yarn", "factor": 4.0}, 163_840, 40_960),
    ],
)
def test_the_factor_of_a_rope_by_release(folder, rope, old, new):
    model = folder(rope_scaling=rope)
    assert (longest(model, "0.20"), longest(model, "0.33")) == (old, new)


def test_rope_scaling_was_a_flag_and_is_a_field():
    flag = {"rope_scaling": YARN, "max_model_len": 131_072}
    assert kvplan.plan("Qwen/Qwen3-8B", engine="vllm@0.9.2", **POOL, **flag).verdict == "fits"
    codes = [note.code for note in kvplan.plan("Qwen/Qwen3-8B", engine="vllm@0.11.2", **POOL, **flag).reasons]
    assert codes == ["flag_dropped"]
    field = {"hf_overrides": {"rope_scaling": YARN}, "max_model_len": 131_072}
    assert kvplan.plan("Qwen/Qwen3-8B", engine="vllm@0.20", **POOL, **field).verdict == "fits"
    codes = [note.code for note in kvplan.plan("Qwen/Qwen3-8B", **POOL, **field).reasons]
    assert codes == ["max_model_len_too_long"]


# as vLLM 0.33's own planner counts them: bytes of a token, weights of the rank in GiB, the derived length
@pytest.mark.parametrize(
    ("changes", "token", "weights", "length"),
    [
        ({"max_position_embeddings": 131_072}, 147_456, 15.288, 131_072),
        ({"num_hidden_layers": 4}, 16_384, 3.766, 40_960),
        ({"num_key_value_heads": 4, "head_dim": 64}, 36_864, 13.714, 40_960),
    ],
)
def test_overridden_fields(changes, token, weights, length):
    plan = kvplan.plan("Qwen/Qwen3-8B", **POOL, hf_overrides=json.dumps(changes))
    assert plan.kv.bytes_per_token == token
    assert plan.kv.max_model_len == length
    assert round((plan.weights_per_rank or 0) / 2**30, 3) == weights


def test_a_nested_section_is_changed_field_by_field():
    name = "google/gemma-3-4b-it"
    plain = kvplan.plan(name, **POOL)
    plan = kvplan.plan(name, **POOL, hf_overrides={"text_config": {"num_hidden_layers": 12}})
    assert len(plan.model.shape.layers) == 12
    assert plan.model.hidden_size == plain.model.hidden_size


def test_sglang_rewrites_a_config_too():
    plan = kvplan.plan(
        "Qwen/Qwen3-8B", engine="sglang", gpu="h100-sxm", json_model_override_args='{"max_position_embeddings": 65536}'
    )
    assert plan.kv.max_model_len == 65_536


@pytest.mark.parametrize("value", ["[]", "{", "3", '"a"'])
def test_what_is_no_object_is_refused(value):
    with pytest.raises(UsageError, match="--hf-overrides takes a JSON object"):
        kvplan.plan("Qwen/Qwen3-8B", hf_overrides=value)
