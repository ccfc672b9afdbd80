"""The pool of one rank: as large as the plan says for every built-in model, and decoded wherever the kernels can."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.engine.args import engine_args
from kvplan.engine.vllm.activation.widths import widths_of
from kvplan.engine.vllm.releases import release
from kvplan.hardware import find_gpu
from kvplan.planner import load_model, plan
from kvplan.sources.builtin import listings
from kvplan.verify.batch import NULL, Shortfall, crowd, deal
from kvplan.verify.order import QUICK_ROWS, ROWS, granules, order, rehearsal
from kvplan.verify.pool import lay_out_pool

CARD = find_gpu("b200")
BLOCKS = 5000


def laid_out(name, stage=0, **flags):
    model, args = load_model(name), engine_args(flags)
    made = plan(model, gpu=CARD, num_gpu_blocks_override=BLOCKS, **flags)
    return made, lay_out_pool(model, args, CARD, release(None), None, stage)


@pytest.mark.parametrize("flags", [{}, {"tensor_parallel_size": 2, "kv_cache_dtype": "fp8"}], ids=str)
def test_every_built_in_costs_what_the_plan_says(flags):
    """A block id's bytes by two ways: the planner's groups, and the regions that verify allocates."""
    seen = 0
    for name in (listing.id for listing in listings()):
        made = plan(name, gpu=CARD, num_gpu_blocks_override=BLOCKS, **flags)
        if made.verdict != "fits" or not made.kv.groups:
            continue
        _, pool = laid_out(name, **flags)
        assert pool.bytes_per_block == made.kv.bytes_per_block, name
        assert len(pool.groups) == len(made.kv.groups), name
        assert all(layer.page_bytes == pool.regions[layer.region] for layer in pool.layers), name
        seen += 1
    assert seen > 40


@pytest.mark.parametrize(
    ("name", "flags", "forms"),
    [
        ("meta-llama/Llama-3.1-8B", {}, {(32, 8, 128, 128, "bfloat16", 16, None)}),
        ("meta-llama/Llama-3.1-8B", {"tensor_parallel_size": 4}, {(8, 2, 128, 128, "bfloat16", 16, None)}),
        ("meta-llama/Llama-3.1-8B", {"kv_cache_dtype": "fp8"}, {(32, 8, 128, 128, "float8_e4m3fn", 16, None)}),
        ("meta-llama/Llama-3.1-8B", {"kv_cache_dtype": "fp8_e5m2"}, {(32, 8, 128, 128, "float8_e5m2", 16, None)}),
        ("deepseek-ai/DeepSeek-V2-Lite", {}, {(16, 1, 576, 512, "bfloat16", 32, None)}),
        ("mistralai/Mistral-7B-v0.1", {}, {(32, 8, 128, 128, "bfloat16", 16, 4096)}),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", {}, {(16, 2, 256, 256, "bfloat16", 576, None)}),
        ("openai/gpt-oss-120b", {}, {(64, 8, 64, 64, "bfloat16", 16, 128), (64, 8, 64, 64, "bfloat16", 16, None)}),
        ("XiaomiMiMo/MiMo-V2-Flash", {"tensor_parallel_size": 8},
         {(8, 1, 192, 128, "bfloat16", 16, None), (8, 1, 192, 128, "bfloat16", 16, 128)}),
    ],
)  # fmt: skip
def test_forms_of_attention(name, flags, forms):
    _, pool = laid_out(name, **flags)
    found = {(a.heads, a.kv_heads, a.key, a.value, a.dtype, a.page, a.window) for a in pool.layers}
    assert found == forms
    assert not pool.undecodable


def test_softcap_sinks_and_chunks():
    assert all(layer.softcap for layer in laid_out("google/gemma-2-9b")[1].layers)
    assert all(layer.sinks for layer in laid_out("openai/gpt-oss-120b")[1].layers)
    scout = laid_out("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", tensor_parallel_size=8)[1]
    assert {(layer.window, layer.chunked) for layer in scout.layers} == {(8192, True), (None, False)}


@pytest.mark.parametrize(
    ("name", "flags", "why"),
    [
        ("deepseek-ai/DeepSeek-V3.2", {"tensor_parallel_size": 8}, "Indexer caches"),
        ("deepseek-ai/DeepSeek-V4-Flash", {"tensor_parallel_size": 8}, "KV dtype fp8_ds_mla"),
        ("meta-llama/Llama-3.1-8B", {"kv_cache_dtype": "int8_per_token_head"}, "KV dtype int8_per_token_head"),
        ("meta-llama/Llama-3.1-8B", {"dtype": "float32"}, "KV dtype float32"),
    ],
)
def test_what_the_kernels_do_not_decode_is_named(name, flags, why):
    made, pool = laid_out(name, **flags)
    assert pool.undecodable == (why,)
    assert pool.bytes_per_block == made.kv.bytes_per_block


def test_pipeline_stages_share_the_layers():
    first, last = (laid_out("meta-llama/Llama-3.1-8B", stage, pipeline_parallel_size=2)[1] for stage in (0, 1))
    assert len(first.layers) == len(last.layers) == 16
    assert first.bytes_per_block + last.bytes_per_block == 2 * 1024 * 1024


def test_one_of_each_kind():
    pool = laid_out("google/gemma-3-27b-it")[1]
    cut = pool.one_of_each()
    assert len(cut.layers) == 2
    assert {layer.window for layer in cut.layers} == {1024, None}
    assert len(cut.regions) == 1
    assert cut.groups == pool.groups


HYBRIDS = ("meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "Qwen/Qwen3-Next-80B-A3B-Instruct")


@given(st.sampled_from(HYBRIDS), st.integers(1, 6), st.integers(1, 5000), st.integers(0, 9))
def test_no_block_is_dealt_twice(name, requests, length, seed):
    """Over all groups and requests; block 0 stays back; a request has the blocks of each token that it attends to."""
    pool = laid_out(name, max_model_len=5000)[1]
    batch = deal(pool, BLOCKS, [length] * requests, seed)
    dealt = [block for group in batch.blocks for row in group for block in row if block != NULL]
    assert len(dealt) == len(set(dealt))
    assert all(NULL < block < BLOCKS for block in dealt)
    for layer in pool.layers:
        for tokens, row in zip(batch.lengths[layer.group], batch.blocks[layer.group], strict=True):
            first = tokens - layer.seen(tokens)
            assert NULL not in row[first // layer.page : -(-tokens // layer.page)]
            assert len(row) >= -(-tokens // layer.page)


def test_crowd_leaves_the_null_block():
    """Ten requests of a hundred blocks in a pool of a thousand: the last gives up the block that the engine keeps."""
    pool = laid_out("meta-llama/Llama-3.1-8B")[1]
    batch = crowd(pool, 1000, 10, 1600, 0)
    assert batch.lengths[0] == (1600,) * 9 + (1584,)
    with pytest.raises(Shortfall, match="11 requests of 1,600 tokens need 1,100 blocks, and the plan has 1,000"):
        crowd(pool, 1000, 11, 1600, 0)


def ordered(name="meta-llama/Llama-3.1-8B", *, quick=False, **flags):
    made, pool = laid_out(name, **flags)
    widths = widths_of(made.model, flags.get("tensor_parallel_size", 1))
    return made, order(
        made, pool, widths, context=0, non_torch=200_000_000, requests=None, quick=quick, tune=False
    )  # fmt: skip


def test_order_holds_every_line_that_is_not_measured():
    made, found = ordered(max_model_len=8192, tensor_parallel_size=2)
    lines = {line.name: line.bytes for line in made.budget.lines}
    assert dict(found.ballast) == {
        "weights": lines["weights"], "persistent": lines["persistent"], "cuda_graphs": lines["cuda_graphs"],
        "nccl": lines["non_torch"] - 200_000_000,
    }  # fmt: skip
    assert found.probe.mlp == 14336 // 2
    assert found.probe.phases()["logits"] == 16_384 * 4096 * 2 + 1024 * 4096 * 2 + 1024 * 128_256 * 14
    assert found.pool_bytes == 32 * granules(BLOCKS * 32_768)


def test_quick_order_is_as_large_as_the_whole():
    _, whole = ordered(max_model_len=8192)
    _, quick = ordered(max_model_len=8192, quick=True)
    assert len(quick.regions) == 1
    assert sum(quick.regions) + quick.rest == sum(whole.regions)
    assert len([one for one in whole.samples if one.batch == 0]) == ROWS
    assert len([one for one in quick.samples if one.batch == 0]) == QUICK_ROWS
    assert {one.batch for one in whole.samples} == {0, 1}


def test_rehearsal_is_small_and_keeps_windows():
    _, whole = ordered("mistralai/Mistral-7B-v0.1", max_model_len=100)
    small = rehearsal(whole)
    assert sum(size for _, size in small.ballast) < 64_000_000
    assert small.probe.peak() < 4_000_000
    assert {layer.window for layer in small.layers} == {25}
    assert small.pool_bytes == whole.pool_bytes


def test_experts_workspace_that_stays_is_no_activation():
    _, found = ordered("deepseek-ai/DeepSeek-V2-Lite", max_model_len=8192)
    assert found.probe.kept
    assert found.probe.phases()["experts"] == 16_384 * 2 * 2 * 2048
    assert found.probe.phases()["expanded"] == 16_384 * 2 * 2 * 2048 + 65_536 * 16 * 256 * 2
