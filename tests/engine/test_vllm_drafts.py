"""Draft models in the pool, and what they change in it: figures of vLLM 0.33's own planner, 40 GiB of KV cache."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kvplan

# the geometry of public EAGLE-3 drafts: one layer of Llama's
DRAFT = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "num_hidden_layers": 1,
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
    "draft_vocab_size": 32_000,
    "max_position_embeddings": 2048,
}


@pytest.fixture
def drafted(tmp_path):
    def plan(model: str, length: int, tp: int = 1, engine: str = "vllm", **draft: Any) -> kvplan.Plan:
        (tmp_path / "config.json").write_text(json.dumps({**DRAFT, **draft}))
        speculative = {"method": "eagle3", "model": str(tmp_path), "num_speculative_tokens": 3}
        return kvplan.plan(
            model,
            engine=engine,
            gpu="h100-sxm",
            tensor_parallel_size=tp,
            max_model_len=length,
            kv_cache_memory_bytes="40 GiB",
            speculative_config=speculative,
        )

    return plan


@pytest.mark.parametrize("architecture", ["LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "EagleLlamaForCausalLM"])
def test_a_draft_of_llamas_layer_is_one_layer_more(drafted, architecture):
    plan = drafted("meta-llama/Llama-3.1-8B", 8192, architectures=[architecture])
    assert (plan.kv.num_blocks, plan.kv.tokens) == (19_859, 317_744)


def test_chunks_are_kept_whole_beside_a_draft_that_reads_hidden_states(drafted):
    more = {"hidden_size": 5120, "num_attention_heads": 40, "head_dim": 128}
    plan = drafted("meta-llama/Llama-4-Maverick-17B-128E-Instruct", 32_768, 8, **more)
    assert (plan.kv.num_blocks, plan.kv.tokens) == (106_997, 1_711_952)
    assert len(plan.kv.groups) == 1


def groups(release: str) -> int:
    plan = kvplan.plan(
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        engine=f"vllm@{release}",
        gpu="h200-sxm",
        tensor_parallel_size=8,
        max_model_len=131_072,
    )
    return len(plan.kv.groups)


def test_chunks_are_counted_for_what_they_hold_from_0_14_on():
    assert [groups(release) for release in ("0.10.2", "0.13", "0.14", "0.33")] == [1, 1, 4, 4]


@pytest.mark.parametrize("rope", ["longrope", "su"])
def test_longrope_starts_at_its_original_length(tmp_path, rope):
    config = {**kvplan.load_model("microsoft/Phi-3.5-mini-instruct").config}
    config["rope_scaling"] = {**config["rope_scaling"], "type": rope, "rope_type": rope}
    (tmp_path / "config.json").write_text(json.dumps(config))
    lengths = [kvplan.plan(str(tmp_path), engine=f"vllm@{r}").kv.max_model_len for r in ("0.11.0", "0.11.2", "0.33")]
    assert lengths == [131_072, 4096, 4096]
