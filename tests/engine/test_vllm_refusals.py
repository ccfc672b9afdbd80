"""What the engine refuses of flags and checkpoints whatever the card: activation orders, experts that are not there."""

from __future__ import annotations

import json

import pytest

import kvplan

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}


def packed(order):
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "actorder": order}
    group = {"targets": ["Linear"], "weights": weights}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": group}}


def codes(folder, section=None, version="0.33.0", **flags):
    config = LLAMA if section is None else {**LLAMA, "quantization_config": section}
    folder.joinpath("config.json").write_text(json.dumps(config))
    plan = kvplan.plan(folder, engine=f"vllm@{version}", gpu="h100-sxm", kv_cache_memory_bytes="8 GiB", **flags)
    return {note.code for note in plan.reasons}


@pytest.mark.parametrize(
    ("section", "refused"),
    [
        (GPTQ, True),
        ({**GPTQ, "desc_act": False}, False),
        ({**GPTQ, "group_size": -1}, False),  # one group: its order does not matter
        ({**GPTQ, "desc_act": False, "dynamic": {"+:.*down_proj": {"desc_act": True}}}, True),
        ({**GPTQ, "desc_act": False, "dynamic": {"-:.*down_proj": {"desc_act": True}}}, False),
        (packed("group"), True),
        (packed("weight"), False),
        (packed(None), False),
    ],
)
def test_activation_order(tmp_path, section, refused):
    assert codes(tmp_path, section) == ({"quantization_unsupported"} if refused else set())
    assert codes(tmp_path, section, "0.20.0") == set()


def test_expert_parallelism_wants_experts(tmp_path):
    assert codes(tmp_path, enable_expert_parallel=True) == {"expert_parallel_unsupported"}
    assert codes(tmp_path, enable_expert_parallel=False) == set()
    plan = kvplan.plan("Qwen/Qwen3-235B-A22B", gpu="h100-sxm", enable_expert_parallel=True)
    assert "expert_parallel_unsupported" not in {note.code for note in plan.reasons}


@pytest.mark.parametrize(
    ("model", "refused"),
    [("mistralai/Mamba-Codestral-7B-v0.1", True), ("Qwen/Qwen3-8B", False)],
)
def test_pipelines_hang_on_the_class(model, refused):
    plan = kvplan.plan(model, gpu="h100-sxm", pipeline_parallel_size=2, max_model_len=2048)
    assert ("pipeline_unsupported" in {note.code for note in plan.reasons}) is refused


def test_scales_for_an_fp8_cache_are_e4m3(tmp_path):
    fp8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    assert codes(tmp_path, fp8, kv_cache_dtype="fp8_e5m2") == {"kv_cache_dtype_unsupported"}
    assert codes(tmp_path, fp8, kv_cache_dtype="fp8") == set()
    assert codes(tmp_path, packed(None), kv_cache_dtype="fp8_e5m2") == set()


def test_a_sparse_latent_cache_is_spread_only_where_it_is_packed():
    flags = {"tensor_parallel_size": 4, "decode_context_parallel_size": 4, "max_model_len": 2048}
    plan = kvplan.plan("deepseek-ai/DeepSeek-V3.2", gpu="b200", kv_cache_memory_bytes="8 GiB", **flags)
    assert "context_parallel_unsupported" in {note.code for note in plan.reasons}
    packed = kvplan.plan(
        "deepseek-ai/DeepSeek-V3.2", gpu="b200", kv_cache_memory_bytes="8 GiB", kv_cache_dtype="fp8_ds_mla", **flags
    )
    assert packed.verdict == "fits"
