"""Attention backends by platform: AMD's own list and blocks, and what Triton does not read below compute 8.9."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.engine.vllm.backends import Card, Want, choose

ROOM = 8 << 30
MI300X, MI210, RX7900 = Card((0, 0), "cdna3"), Card((0, 0), "cdna2"), Card((0, 0), "rdna3")


def planned(model, gpu, **flags):
    return kvplan.plan(model, gpu=gpu, kv_cache_memory_bytes=ROOM, max_model_len=2048, **flags)


def codes(plan):
    return [note.code for note in plan.reasons]


# -- AMD --------------------------------------------------------------------------------------------------------------

LAYERS = [
    (MI300X, {"head_dim": 128}, "ROCM_ATTN", 16),
    (MI300X, {"head_dim": 128, "kv_dtype": "fp8_e5m2"}, "ROCM_ATTN", 16),
    (MI300X, {"head_dim": 64, "sinks": True}, "ROCM_AITER_UNIFIED_ATTN", 64),
    (MI300X, {"head_dim": 512}, "ROCM_AITER_UNIFIED_ATTN", 64),
    (MI300X, {"head_dim": 64, "encoder": True, "cross": True}, "ROCM_AITER_UNIFIED_ATTN", 64),
    (MI300X, {"head_dim": 128, "run_dtype": "turboquant_k8v4"}, "TRITON_ATTN", 16),
    (MI210, {"head_dim": 64, "sinks": True}, "TRITON_ATTN", 16),
    (MI300X, {"head_dim": 256, "prefix_lm": True}, "TRITON_ATTN", 16),
    (MI300X, {"head_dim": 128, "kv_dtype": "int8_per_token_head"}, "TRITON_ATTN", 16),
    (RX7900, {"head_dim": 128, "kv_dtype": "turboquant_k8v4"}, "TURBOQUANT", 16),
    (RX7900, {"head_dim": 256, "rotary": 64, "kv_dtype": "octave_k3v4"}, "ROCM_OCTAVE", 16),
    (MI300X, {"head_dim": 128, "kv_dtype": "ultraquant_4bit"}, "ULTRAQUANT", 64),
    (MI300X, {"head_dim": 576, "mla": True}, "TRITON_MLA", 16),
    (MI300X, {"head_dim": 576, "mla": True, "sparse": True}, "ROCM_AITER_MLA_SPARSE", 16),
    (MI300X, {"head_dim": 192, "unequal": True}, "TRITON_ATTN_DIFFKV", 16),
]


@pytest.mark.parametrize(("card", "layer", "name", "block"), LAYERS)
def test_an_amd_card_has_the_list_of_rocm(card, layer, name, block):
    found = choose(Want(card=card, **{"kv_dtype": "auto", **layer}))
    assert found is not None
    assert (found.name, found.preferred(16)) == (name, block)


@pytest.mark.parametrize("kv_dtype", ["nvfp4", "nvfp4_4over6", "fp8_ds_mla", "octave_k3v4"])
def test_what_no_backend_of_rocm_reads_is_refused_as_on_cuda(kv_dtype):
    assert codes(planned("Qwen/Qwen3-8B", "mi300x", kv_cache_dtype=kv_dtype)) == ["no_attention_backend"]


def test_an_ultraquant_run_cannot_share_its_blocks_with_the_layers_that_it_leaves():
    assert codes(planned("Qwen/Qwen3-8B", "mi300x", kv_cache_dtype="ultraquant_4bit")) == ["no_attention_backend"]
    assert planned("Qwen/Qwen3-Next-80B-A3B-Instruct", "mi300x", kv_cache_dtype="ultraquant_4bit").fits


@pytest.mark.parametrize(
    ("kv_dtype", "slot"),
    [("octave_k3v4", 248), ("octave_k3v3", 216), ("octave_k3v3_compact", 196), ("ultraquant_4bit", 272)],
)
def test_the_packed_slots_of_rocm(kv_dtype, slot):
    """Bytes of a token and head of 256 channels, as the formats say of themselves."""
    kv = planned("Qwen/Qwen3-Next-80B-A3B-Instruct", "mi300x", kv_cache_dtype=kv_dtype).kv
    full = next(group for group in kv.groups if group.kind == "full")
    assert full.page_bytes == full.block_size * 2 * slot


def test_blocks_and_the_assumption_of_aiter():
    sinks = planned("openai/gpt-oss-120b", "mi300x")
    sparse = planned("deepseek-ai/DeepSeek-V3.2", "mi300x", kv_cache_dtype="fp8")
    dense = planned("Qwen/Qwen3-8B", "mi300x")
    assert [plan.kv.block_size for plan in (sinks, sparse, dense)] == [64, 16, 16]
    assert sparse.kv.bytes_per_token == 61 * (576 + 128 + 4)  # the latent is not packed as FlashMLA's
    hints = [next(note.hint for note in p.warnings if note.code == "backend_assumed") for p in (sinks, sparse, dense)]
    assert ["AITER" in hint for hint in hints] == [True, True, False]


# -- Triton below compute capability 8.9 ------------------------------------------------------------------------------

LLAMA, HEADS_OF_80 = "TheBloke/Llama-2-7B-AWQ", "microsoft/phi-2"


@pytest.mark.parametrize(
    ("model", "gpu", "release", "reads"),
    [
        (LLAMA, "t4", "0.33", False),
        (LLAMA, "t4", "0.24", False),
        (LLAMA, "t4", "0.23", True),  # FlashInfer, from 7.5 then
        (LLAMA, "v100-sxm2-16gb", "0.23", False),  # not checked, and not compiled
        (LLAMA, "v100-sxm2-16gb", "0.10", True),  # the first engine core, by XFORMERS
        (LLAMA, "a100-40gb-pcie", "0.33", True),  # FlashInfer
        (LLAMA, "l4", "0.33", True),
        (HEADS_OF_80, "a100-40gb-pcie", "0.33", False),  # a head that FlashInfer does not have
        (HEADS_OF_80, "l4", "0.33", True),
        ("deepseek-ai/DeepSeek-V2-Lite", "a100-40gb-pcie", "0.33", False),
        ("deepseek-ai/DeepSeek-V2-Lite", "l4", "0.33", True),
        ("deepseek-ai/DeepSeek-V2-Lite", "l4", "0.17", False),  # Triton's MLA read no fp8 at all
        ("deepseek-ai/DeepSeek-V2-Lite", "l4", "0.18", True),
    ],
)
def test_fp8_below_compute_8_9(model, gpu, release, reads):
    plan = planned(model, gpu, engine=f"vllm@{release}", kv_cache_dtype="fp8")
    assert codes(plan) == ([] if reads else ["kv_cache_dtype_unsupported"])
    assert planned(model, gpu, engine=f"vllm@{release}").verdict == "fits"


def test_other_small_dtypes_are_read_there():
    assert planned(LLAMA, "t4", kv_cache_dtype="int8_per_token_head").fits
    assert codes(planned(LLAMA, "t4", kv_cache_dtype="fp8_per_token_head")) == ["kv_cache_dtype_unsupported"]
    assert codes(planned(LLAMA, "t4", dtype="float16", kv_cache_dtype="bfloat16")) == ["kv_cache_dtype_unsupported"]
    assert codes(planned(LLAMA, "t4", dtype="bfloat16")) == ["dtype_unsupported"]
