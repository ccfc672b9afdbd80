"""KV dtypes that are packed per head or per layer, at 40 GiB: figures of vLLM 0.33's own planner."""

from __future__ import annotations

import pytest

import kvplan

ROWS = [
    # model, card, KV dtype, max_model_len, block size, blocks, tokens
    ("Qwen/Qwen3-8B", "h100-sxm", "turboquant_k8v4", 4096, 32, 20_164, 645_248),
    ("Qwen/Qwen3-8B", "h100-sxm", "turboquant_4bit_nc", 4096, 32, 26_479, 847_328),
    ("Qwen/Qwen3-8B", "h100-sxm", "turboquant_k3v4_nc", 4096, 32, 28_807, 921_824),
    ("Qwen/Qwen3-8B", "h100-sxm", "turboquant_3bit_nc", 4096, 32, 31_583, 1_010_656),
    ("Qwen/Qwen3-8B", "h100-sxm", "int4_per_token_head", 4096, 16, 68_534, 1_096_544),
    ("Qwen/Qwen3-8B", "h100-sxm", "int8_per_token_head", 4096, 16, 35_305, 564_880),
    ("Qwen/Qwen3-8B", "h100-sxm", "nvfp4", 4096, 16, 64_726, 1_035_616),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "h100-sxm", "turboquant_k8v4", 4096, 1472, 3133, 1_069_397),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "h100-sxm", "turboquant_3bit_nc", 262_144, 2816, 3209, 8_167_185),
    ("deepseek-ai/DeepSeek-V3.2", "h100-sxm", "fp8_ds_mla", 4096, 64, 13_961, 893_504),
    ("deepseek-ai/DeepSeek-V3.2", "b200", "fp8_ds_mla", 4096, 64, 13_961, 893_504),
]


@pytest.mark.parametrize(("model", "gpu", "kv_dtype", "length", "block_size", "blocks", "tokens"), ROWS)
def test_a_packed_dtype_is_sized_as_the_engine_packs_it(model, gpu, kv_dtype, length, block_size, blocks, tokens):
    kv = kvplan.plan(model, gpu=gpu, kv_cache_dtype=kv_dtype, max_model_len=length, kv_cache_memory_bytes=40 << 30).kv
    assert (kv.block_size, kv.num_blocks, kv.tokens) == (block_size, blocks, tokens)


@pytest.mark.parametrize(
    ("model", "gpu", "kv_dtype"),
    [
        ("google/gemma-2-27b-it", "h100-sxm", "turboquant_k8v4"),  # sliding windows
        ("Qwen/Qwen3-8B", "b200", "turboquant_k8v4"),  # FlashInfer's first and last layers are laid out otherwise
        ("Qwen/Qwen3-8B", "h100-sxm", "octave_k3v4"),  # ROCm only
        ("Qwen/Qwen3-8B", "h100-sxm", "ultraquant_4bit"),  # ROCm only
        ("Qwen/Qwen3-8B", "h100-sxm", "fp8_ds_mla"),  # latent attention only
    ],
)
def test_a_dtype_that_no_backend_takes_is_refused(model, gpu, kv_dtype):
    plan = kvplan.plan(model, gpu=gpu, kv_cache_dtype=kv_dtype, max_model_len=4096, kv_cache_memory_bytes=40 << 30)
    assert [note.code for note in plan.reasons] == ["no_attention_backend"]
