"""The figures that the documents behind this project state, reproduced through the product."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.model.what_if import with_kv_heads
from kvplan.units import GB, GIB, MIB

L8, L70 = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B"


@pytest.mark.parametrize(
    ("model", "kv_cache_dtype", "expected"),
    [(L8, "auto", 131_072), (L8, "fp8", 65_536), (L70, "auto", 327_680)],
)
def test_kv_bytes_per_token(model, kv_cache_dtype, expected):
    assert kvplan.plan(model, kv_cache_dtype=kv_cache_dtype).kv.bytes_per_token == expected


@pytest.mark.parametrize(("kv_heads", "expected"), [(32, 524_288), (8, 131_072), (1, 16_384)])
def test_what_if_the_model_had_other_kv_heads(kv_heads, expected):
    model = with_kv_heads(kvplan.load_model(L8), kv_heads)
    assert kvplan.plan(model).kv.bytes_per_token == expected


def test_from_multi_head_to_grouped_query_and_fp8_is_a_factor_of_eight():
    mha = kvplan.plan(with_kv_heads(kvplan.load_model(L8), 32)).kv.bytes_per_token
    assert mha == 8 * kvplan.plan(L8, kv_cache_dtype="fp8").kv.bytes_per_token


@pytest.mark.parametrize(
    ("model", "gib_at"),
    [
        (L8, {2048: 0.25, 8192: 1, 32768: 4, 131072: 16}),
        (L70, {2048: 0.625, 8192: 2.5, 32768: 10, 131072: 40}),
    ],
)
def test_kv_bytes_per_sequence(model, gib_at):
    assert {n: kvplan.plan(model, max_model_len=n).kv.sequence_bytes / GIB for n in gib_at} == gib_at


def test_a_batch_is_so_many_sequences():
    assert 32 * kvplan.plan(L8, max_model_len=8192).kv.sequence_bytes == 34_359_738_368
    mha = kvplan.plan(with_kv_heads(kvplan.load_model(L8), 32), max_model_len=8192)
    assert 32 * mha.kv.sequence_bytes / GB == pytest.approx(137.4, rel=1e-3)
    assert 32 * kvplan.plan(L8, max_model_len=8192, kv_cache_dtype="fp8").kv.sequence_bytes / GB == pytest.approx(
        17.2, rel=2e-3
    )
    assert 200 * 2000 * kvplan.plan(L8).kv.bytes_per_token / GIB == pytest.approx(48.83, rel=1e-3)


def test_a_pool_of_64_gib_holds_128_requests_of_4096():
    plan = kvplan.plan(L8, max_model_len=4096, kv_cache_memory_bytes="64 GiB")
    assert plan.kv.sequence_bytes == 512 * MIB
    assert plan.kv.max_concurrency == 128


@pytest.mark.parametrize(
    ("tp", "bytes_per_token"), [(1, 131_072), (2, 65_536), (4, 32_768), (8, 16_384), (16, 16_384), (32, 16_384)]
)
def test_tensor_parallelism_splits_heads_until_there_is_one_a_gpu(tp, bytes_per_token):
    assert kvplan.plan(L8, tensor_parallel_size=tp).kv.bytes_per_token == bytes_per_token


GIVEN = {
    "gpu_memory": "80 GB",
    "gpu_memory_utilization": 0.92,
    "weights": "16 GB",
    "activations": "4 GB",
    "cuda_graphs": "0",
    "non_torch": "0",
}


def test_with_each_term_given_the_division_is_exact():
    plan = kvplan.plan(L8, max_model_len=8192, **GIVEN)
    assert plan.budget.kv_bytes == 53.6 * GB
    assert plan.budget.kv_bytes // plan.kv.bytes_per_token == 408_935
    assert plan.kv.tokens == 408_928
    assert plan.kv.max_concurrency == pytest.approx(49.9, abs=0.05)
    assert plan.kv.tokens / 1000 == pytest.approx(408.9, abs=0.05)
    assert kvplan.plan(L8, max_model_len=8192, kv_cache_dtype="fp8", **GIVEN).kv.max_concurrency == pytest.approx(
        99.8, abs=0.05
    )


def test_a_given_number_of_blocks():
    plan = kvplan.plan(L8, max_model_len=8192, num_gpu_blocks_override=21376, block_size=16)
    assert plan.kv.max_concurrency == 41.75


THIRTEEN = [
    (L8, 30720, 16, 491520, 15.00),
    (L70, 12288, 16, 196608, 6.00),
    ("google/gemma-3-27b-it", 49152, 16, 187673, 5.73),
    ("google/gemma-3-4b-it", 196608, 16, 750693, 22.91),
    ("openai/gpt-oss-120b", 109226, 16, 1161673, 35.45),
    ("deepseek-ai/DeepSeek-V3", 57299, 16, 916784, 27.98),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", 4551, 576, 2259502, 68.95),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 81920, 16, 403298, 12.31),
    ("ai21labs/AI21-Jamba-1.5-Mini", 49152, 80, 3798614, 115.92),
    ("mistralai/Mistral-7B-v0.1", 30720, 16, 785818, 23.98),
    ("Qwen/Qwen2.5-VL-7B-Instruct", 70217, 16, 1123472, 34.29),
    ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", 20062, 16, 320992, 9.80),
]


@pytest.mark.parametrize(("model", "blocks", "size", "tokens", "concurrency"), THIRTEEN)
def test_thirteen_common_models(model, blocks, size, tokens, concurrency):
    plan = kvplan.plan(model, gpu="h100-sxm", kv_cache_memory_bytes="60 GiB", max_model_len=32768)
    have = (plan.kv.num_blocks, plan.kv.block_size, plan.kv.tokens, round(plan.kv.max_concurrency, 2))
    assert have == (blocks, size, tokens, concurrency)


def test_the_thirteenth_is_read_and_refused():
    plan = kvplan.plan("tiiuae/falcon-7b", gpu="h100-sxm", kv_cache_memory_bytes="60 GiB", max_model_len=2048)
    shape = plan.model.shape
    assert (len(shape.layers), shape.heads, shape.kv_heads, shape.head_dim) == (32, 71, 1, 64)
    assert {(c.kv_heads * (c.head_dim + c.head_dim_v)) * 2 for c in shape.caches()} == {8192 // 32}
    assert plan.verdict == "refused"
    assert [reason.code for reason in plan.reasons] == ["architecture_removed"]


@pytest.mark.parametrize(
    ("kv_cache_dtype", "tokens", "requests"),
    [("auto", (38_000, 46_000), (4.6, 5.7)), ("fp8", (76_000, 92_000), (9.2, 11.3))],
)
def test_a_4090_holds_about_so_much(kv_cache_dtype, tokens, requests):
    kv = kvplan.plan(L8, gpu="rtx-4090", kv_cache_dtype=kv_cache_dtype, max_model_len=8192).kv
    assert tokens[0] <= kv.tokens <= tokens[1]
    assert requests[0] <= kv.max_concurrency <= requests[1]


def test_a_4090_refuses_the_full_length_and_says_what_fits():
    plan = kvplan.plan(L8, gpu="rtx-4090", max_model_len=131_072)
    assert plan.verdict == "refused"
    assert 38_000 <= plan.kv.longest_model_len <= 46_000
