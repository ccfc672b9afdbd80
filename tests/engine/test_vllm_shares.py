"""Quantised matrices over ranks: no share may cut through a group or a block of one scale."""

from __future__ import annotations

import json

import pytest

import kvplan

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 12800,
    "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip
MOE = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 2,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 32000, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "max_position_embeddings": 4096, "torch_dtype": "bfloat16", "norm_topk_prob": True,
}  # fmt: skip


def packed(group, ignore=("lm_head",)):
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": group, "symmetric": True}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "ignore": list(ignore),
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
ROUND = {
    "quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "packing_format": "auto_round:auto_gptq"
}  # fmt: skip
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "producer": {"name": "modelopt"}, "ignore": ["lm_head"]}


def reasons(folder, config, section, tensor, *, gpu="h100-sxm", version="0.33.0", **flags):
    folder.joinpath("config.json").write_text(json.dumps({**config, "quantization_config": section}))
    plan = kvplan.plan(
        folder,
        engine=f"vllm@{version}",
        gpu=gpu,
        tensor_parallel_size=tensor,
        kv_cache_memory_bytes="8 GiB",
        **flags,
    )
    return [note for note in plan.reasons if note.code == "quantization_block_not_divisible"]


@pytest.mark.parametrize(
    ("config", "section", "tensor", "refused"),
    [
        (LLAMA, packed(128), 4, False),
        (LLAMA, packed(128), 8, True),  # 1600 by 128
        (LLAMA, packed(64), 8, False),
        (LLAMA, packed(128, ["lm_head", "re:.*down_proj"]), 8, False),  # all that is cut along its inputs is plain
        (LLAMA, AWQ, 4, False),
        (LLAMA, AWQ, 8, True),
        (LLAMA, {**GPTQ, "group_size": 32}, 8, False),
        (LLAMA, GPTQ, 8, False),  # its kernels take a group that two ranks share
        (LLAMA, ROUND, 8, False),
        (LLAMA, {**GPTQ, "group_size": -1}, 8, False),
        (LLAMA, NVFP4, 8, False),
        ({**LLAMA, "intermediate_size": 8 * 1592}, NVFP4, 8, True),  # 1592 by 16
        (MOE, packed(32), 8, False),
        (MOE, packed(32), 16, True),  # 48 by 32
        (MOE, AWQ, 8, False),  # 96 by 128: the groups are halved
        (MOE, AWQ, 16, True),
        (MOE, ROUND, 8, False),
        (MOE, ROUND, 16, True),
    ],
)
def test_groups_stay_whole(tmp_path, config, section, tensor, refused):
    assert bool(reasons(tmp_path, config, section, tensor)) is refused


def test_experts_that_do_not_divide_are_no_matter_of_groups(tmp_path):
    assert not reasons(tmp_path, MOE, packed(32), 1, data_parallel_size=7)


def test_the_hint_names_what_fits(tmp_path):
    (dense,) = reasons(tmp_path, LLAMA, packed(128), 8)
    assert "1600" in dense.message
    assert dense.hint == "a smaller --tensor-parallel-size: 1, 2, 4"
    (experts,) = reasons(tmp_path, MOE, packed(32), 16)
    assert "--enable-expert-parallel" in experts.hint
    assert not reasons(tmp_path, MOE, packed(32), 16, enable_expert_parallel=True)


GRANITE = {
    "architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid", "hidden_size": 4096,
    "intermediate_size": 768, "shared_intermediate_size": 1536, "num_local_experts": 72, "num_experts_per_tok": 10,
    "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "layer_types": ["mamba", "attention"], "mamba_n_heads": 128, "mamba_d_head": 64, "mamba_n_groups": 1,
    "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_expand": 2, "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16", "mamba_chunk_size": 256,
}  # fmt: skip
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}


def test_blocks_stay_whole(tmp_path):
    (found,) = reasons(tmp_path, GRANITE, BLOCKS, 2)
    assert "8512" in found.message  # a Mamba-2 projection with fewer groups than ranks is one matrix
    assert not reasons(tmp_path, GRANITE, BLOCKS, 1)
    # outputs that FP8's own method merges are let off; experts take finer blocks

    assert not reasons(tmp_path, MOE, BLOCKS, 8)


def test_autoround_is_known_by_its_later_name(tmp_path):
    tmp_path.joinpath("config.json").write_text(json.dumps({**LLAMA, "quantization_config": ROUND}))
    assert kvplan.plan(tmp_path, engine="vllm@0.33.0", gpu="h100-sxm").verdict == "fits"
