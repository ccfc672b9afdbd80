"""TensorRT-LLM: what its logs print, blocks, windows, the length that shrinks, what it refuses."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.engine.tensorrt_llm.pools import WindowPool, fill
from kvplan.engine.tensorrt_llm.releases import release
from kvplan.errors import UnknownEngine

LLAMA = "meta-llama/Llama-3.1-8B"
MEASURED = {"activations": "0", "cuda_graphs": "0"}


def plan(model: str = LLAMA, gpu: str | None = "h100-sxm", **args) -> kvplan.Plan:
    return kvplan.plan(model, engine="tensorrt-llm", gpu=gpu, **args)


def test_a_log_to_the_block():
    # NVIDIA/TensorRT-LLM#2268: 21.89 GiB are free, 524,288 bytes a token, blocks of 64: 631 of them, 40,384 tokens
    made = plan("meta-llama/Llama-2-7b-hf", "a100-40gb", free_after_load="21.89 GiB", tokens_per_block=64, **MEASURED)
    assert (made.kv.num_blocks, made.kv.tokens) == (631, 40_384)


def test_a_log_of_bytes_and_tokens():
    # A GB10: 0.9 x 6.61 GiB at 73,728 bytes a token are 86,711 tokens, printed as 86,720
    (pool,) = fill([WindowPool(None, 36, 73_728)], int(6.61 * 2**30 * 0.9), 32, 40_960)
    assert pool.blocks * 32 == pytest.approx(86_720, rel=0.001)


def test_the_share_is_of_what_the_warm_up_leaves():
    made = plan(weights="16 GiB", gpu_memory="80 GiB", activations="1 GiB", cuda_graphs="1 GiB", non_torch="2 GiB")
    assert made.budget.kv_bytes == int(60 * 2**30 * 0.9)
    assert made.budget.lines[-1].basis == "exact"


def test_a_length_that_the_pool_cannot_hold_shrinks_and_is_no_refusal():
    made = plan(free_after_load="1 GiB", max_seq_len=131_072, **MEASURED)
    assert made.verdict == "fits"
    assert made.kv.max_model_len == made.kv.tokens == 7392
    assert "max_seq_len_shrunk" in [note.code for note in made.warnings]


@pytest.mark.parametrize(
    ("asked", "told"), [(131_072, 131_072), (131_073, 131_072), (200_000, 131_072), (None, 131_072)]
)
def test_a_length_beyond_the_model_is_lowered_to_it_and_is_no_refusal(asked, told):
    made = plan(max_seq_len=asked)
    assert (made.verdict, made.kv.max_model_len, made.engine_settings["max_seq_len"]) == ("fits", told, told)
    lowered = [note for note in made.warnings if note.code == "max_seq_len_lowered"]
    assert [note.hint for note in lowered] == ["--max-seq-len 131072"] * (asked is not None and asked > told)


def test_windows_have_pools_of_their_own():
    made = plan("openai/gpt-oss-20b", max_seq_len=8192)
    assert [pool.name for pool in made.kv.pools] == ["full", "window_128"]
    full, window = (pool.size for pool in made.kv.pools)
    assert full / window == pytest.approx(8192 / 128, rel=0.01)
    whole = plan(max_attention_window=[1024, 131_072])
    assert [pool.name for pool in whole.kv.pools] == ["full", "window_1024"]


@pytest.mark.parametrize(("dtype", "each"), [("auto", 131_072), ("fp8", 65_536), ("nvfp4", 36_864)])
def test_bytes_a_token_by_kv_dtype(dtype, each):
    assert plan(gpu="b200", kv_cache_dtype=dtype).kv.bytes_per_token == each


def test_everything_is_marked_modelled():
    made = plan()
    assert {line.basis for line in made.budget.lines} == {"modelled"}
    assert made.warnings[0].code == "engine_modelled"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"kv_cache_dtype": "fp8_e5m2"}, "kv_cache_dtype_unsupported"),
        ({"kv_cache_dtype": "nvfp4"}, "kv_cache_dtype_unsupported"),
        ({"gpu": "mi300x"}, "gpu_unsupported"),
        ({"tp_size": 3}, "heads_not_divisible"),
        ({"free_after_load": "0", **MEASURED}, "no_kv_memory"),
    ],
)
def test_what_is_refused(args, code):
    made = plan(**args)
    assert made.verdict == "refused"
    assert code in [reason.code for reason in made.reasons]


def test_releases():
    assert release(None).version == release("1.2").version == release("1.2.0rc1").version == "1.2"
    assert release("0.13").stands_for == "0.13"
    with pytest.raises(UnknownEngine):
        release("main")


def test_states_are_held_for_every_request_of_a_batch():
    # 36 layers of (3 x 1,024 channels + 4 heads x 128 x 128) x 2 bytes a rank of 8
    slot = 36 * (3 * 1024 + 4 * 128 * 128) * 2
    made = kvplan.plan(
        "Qwen/Qwen3-Next-80B-A3B-Instruct", engine="tensorrt-llm", gpu="h200-sxm", tp_size=8, max_batch_size=255
    )
    (line,) = [line for line in made.budget.lines if line.name == "states"]
    assert (line.bytes, line.low, line.high) == (256 * slot, 0, 256 * slot)
    more = kvplan.plan(
        "Qwen/Qwen3-Next-80B-A3B-Instruct", engine="tensorrt-llm", gpu="h200-sxm", tp_size=8, max_batch_size=511
    )
    assert made.budget.kv_bytes is not None
    assert more.budget.kv_bytes is not None
    assert made.budget.kv_bytes - more.budget.kv_bytes == pytest.approx(0.9 * 256 * slot, abs=2)
