"""SGLang's rules one by one: what logs print, the refusals and their advice, releases, stages, the ledger."""

from __future__ import annotations

import json
import re

import pytest

import kvplan
from kvplan.engine.sglang.fraction import prefill_buckets, tower_factor
from kvplan.engine.sglang.releases import release
from kvplan.errors import UnknownEngine
from kvplan.units import GIB

LLAMA = "meta-llama/Llama-3.1-8B"
ROOM = {"free_before_load": "78 GiB", "free_after_load": "60 GiB"}


@pytest.fixture
def made(tmp_path):
    def write(**fields) -> str:
        config = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "torch_dtype": "bfloat16",
            "vocab_size": 131_072,
            "hidden_size": 8192,
            "intermediate_size": 32_768,
            "num_hidden_layers": 64,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 131_072,
        }
        (tmp_path / "config.json").write_text(json.dumps(config | fields))
        return str(tmp_path)

    return write


# -- public start-up logs that give the memory before and after the load ----------------------------------------------


def test_a_log_of_gemma_3_on_0_4_4_to_the_token(made):
    # sgl-project/sglang#4826: 834,615 tokens; the memory is printed to 0.01 GiB, which is 77 tokens
    model = made(
        architectures=["Gemma3ForConditionalGeneration"],
        model_type="gemma3",
        text_config={
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10_240,
            "num_hidden_layers": 34,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "sliding_window": 1024,
            "max_position_embeddings": 131_072,
        },
        vision_config={"model_type": "siglip_vision_model", "hidden_size": 1152, "num_hidden_layers": 27},
    )
    memory = {"free_before_load": "139.21 GiB", "free_after_load": "131.08 GiB"}
    plan = kvplan.plan(model, engine="sglang@0.4.4.post2", gpu="h200-sxm", **memory)
    assert plan.engine_settings["mem_fraction_static"] == 0.836
    assert plan.kv.tokens == pytest.approx(834_615, abs=77)


def test_a_log_of_grok_2_on_0_5_2(made):
    # 64 layers x 8 KV heads of 128 over 8 ranks: 903,439 tokens, 3,529 requests at 131,072
    memory = {"free_before_load": "77.43 GiB", "free_after_load": "40.69 GiB"}
    plan = kvplan.plan(made(), engine="sglang@0.5.2", gpu="h100-sxm", tp_size=8, **memory)
    assert plan.kv.bytes_per_token == 32_768
    assert plan.kv.tokens == pytest.approx(903_439, rel=0.002)
    assert plan.kv.max_running_requests == pytest.approx(3529, rel=0.002)


def test_a_log_of_glm_5_on_rocm_0_5_8():
    memory = {"free_before_load": "283.5 GiB", "free_after_load": "193.92 GiB"}
    plan = kvplan.plan(
        "zai-org/GLM-5-FP8", engine="sglang@0.5.8", gpu="mi355x", tp_size=8, kv_cache_dtype="fp8_e4m3", **memory
    )
    assert plan.kv.tokens == pytest.approx(3_262_823, rel=0.001)


def test_weights_beyond_the_card_are_told_without_negative_memory():
    for model in ("meta-llama/Llama-3.1-70B", "moonshotai/Kimi-Linear-48B-A3B-Instruct"):
        (reason,) = kvplan.plan(model, engine="sglang", gpu="l40s").reasons
        assert re.search(r"-[0-9]", reason.message) is None
        assert "more GPUs (--tp-size)" in reason.hint
    assert kvplan.plan("meta-llama/Llama-3.1-70B", engine="sglang", gpu="l40s").reasons[0].message == (
        "the weights do not fit the card: they take 131.45 GiB a GPU, and 44.03 GiB are free before the load"
    )


def test_a_refusal_advises_the_fraction_that_a_log_advises():
    # SemiAnalysisAI/InferenceX#2128: "at least 0.9113"
    plan = kvplan.plan(
        "deepseek-ai/DeepSeek-V4-Pro",
        engine="sglang",
        gpu="h200-sxm",
        tp_size=8,
        mem_fraction_static=0.88,
        free_before_load="137.90 GiB",
        free_after_load="12.25 GiB",
    )
    (reason,) = plan.reasons
    assert reason.code == "weights_exceed_memory"
    assert reason.hint.startswith("--mem-fraction-static above 0.912")


def test_window_pools_of_a_log():
    # sgl-project/sglang#18039: 375,360 tokens at full length, 300,288 in windows, pages of 64
    plan = kvplan.plan(
        "XiaomiMiMo/MiMo-V2-Flash",
        engine="sglang",
        gpu="h100-sxm",
        tp_size=4,
        page_size=64,
        max_total_tokens=375_400,
        **ROOM,
    )
    assert {pool.name: pool.size for pool in plan.kv.pools} == {"full": 375_360, "window": 300_288}


# -- rules ------------------------------------------------------------------------------------------------------------


def test_captured_prefill_sizes():
    assert [prefill_buckets(tokens) for tokens in (2048, 4096, 8192, 16_384)] == [42, 50, 58, 74]


def test_a_vision_tower_takes_from_the_fraction_between_its_bounds():
    assert tower_factor((24, 1024)) == 0.95
    assert tower_factor((48, 3200)) == 0.95 * 0.8
    assert tower_factor((2, 64)) == 0.95 * 1.05


def test_with_several_ranks_the_free_memory_is_a_float32():
    one = kvplan.plan(
        LLAMA, engine="sglang", gpu="h100-sxm", mem_fraction_static=0.8, **ROOM | {"free_after_load": 64_000_000_001}
    )
    two = kvplan.plan(
        LLAMA,
        engine="sglang",
        gpu="h100-sxm",
        mem_fraction_static=0.8,
        tp_size=2,
        **ROOM | {"free_after_load": 64_000_000_001},
    )
    assert one.budget.kv_bytes - two.budget.kv_bytes != 0
    assert abs(one.budget.kv_bytes - two.budget.kv_bytes) <= 4096


def test_a_context_changes_the_running_requests_and_not_the_tokens():
    short, long = (
        kvplan.plan(LLAMA, engine="sglang", gpu="h100-sxm", context_length=n, **ROOM) for n in (8192, 131_072)
    )
    assert short.kv.tokens == long.kv.tokens
    assert short.kv.max_running_requests > long.kv.max_running_requests


def test_a_pool_shorter_than_the_context_starts_and_says_so():
    plan = kvplan.plan(LLAMA, engine="sglang", gpu="h100-sxm", max_total_tokens=1000, **ROOM)
    assert (plan.verdict, plan.kv.tokens) == ("fits", 1000)
    assert "context_exceeds_pool" in [note.code for note in plan.warnings]


def test_pipeline_stages_keep_their_layers_and_the_fullest_decides():
    one, two = (
        kvplan.plan(LLAMA, engine="sglang", gpu="h100-sxm", pp_size=pp, mem_fraction_static=0.8, **ROOM)
        for pp in (1, 2)
    )
    assert two.gpu_count == 2
    assert two.kv.tokens == pytest.approx(2 * one.kv.tokens, rel=1e-4)


def test_attention_dp_keeps_heads_whole_and_takes_no_more_cards():
    plan = kvplan.plan(LLAMA, engine="sglang", gpu="h100-sxm", tp_size=8, dp_size=8, enable_dp_attention=True, **ROOM)
    assert (plan.gpu_count, plan.kv.bytes_per_token) == (8, 131_072)


def test_the_ledger_adds_up_with_states():
    plan = kvplan.plan("Qwen/Qwen3-Next-80B-A3B-Instruct", engine="sglang", gpu="h100-sxm", tp_size=4)
    names = [line.name for line in plan.budget.lines]
    assert names == ["weights", "states", "kv_cache"]
    assert sum(line.bytes for line in plan.budget.lines) == plan.budget.requested_bytes


def test_without_a_card_there_is_no_verdict():
    plan = kvplan.plan(LLAMA, engine="sglang")
    assert (plan.verdict, plan.kv.tokens, plan.kv.bytes_per_token) == (None, None, 131_072)
    assert plan.weights_per_rank == pytest.approx(15 * GIB, rel=0.01)


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "args", "code"),
    [
        (LLAMA, {"context_length": 131_073}, "context_length_exceeds_model"),
        (LLAMA, {"kv_cache_dtype": "fp8"}, "kv_cache_dtype_unsupported"),
        (LLAMA, {"kv_cache_dtype": "nvfp4"}, "kv_cache_dtype_unsupported"),
        (LLAMA, {"kv_cache_dtype": "mxfp8"}, "kv_cache_dtype_unsupported"),
        (LLAMA, {"kv_cache_dtype": "fp4_mx_block16"}, "kv_cache_dtype_unsupported"),
        (LLAMA, {"tp_size": 3}, "heads_not_divisible"),
        ("Qwen/Qwen2.5-7B-Instruct", {"tp_size": 7}, "kv_heads_not_divisible"),
        (LLAMA, {"tp_size": 4, "dp_size": 3, "enable_dp_attention": True}, "attention_dp_not_divisible"),
        (LLAMA, {"language_only": True}, "language_only_unsupported"),
        (LLAMA, {"free_after_load": "10 GiB"}, "weights_exceed_memory"),
        (
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            {"mamba_radix_cache_strategy": "no_buffer"},
            "states_need_a_buffer",
        ),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", {"free_after_load": "10 GiB"}, "states_do_not_fit"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", {"max_mamba_cache_size": 4}, "states_too_few"),
        ("openai/gpt-oss-20b", {"max_total_tokens": 150}, "window_pool_too_small"),
        (
            "google/gemma-4-26B-A4B",
            {"disable_radix_cache": True, "max_running_requests": 512},
            "window_pool_leaves_nothing",
        ),
    ],
)
def test_what_the_engine_refuses(model, args, code):
    plan = kvplan.plan(model, engine="sglang", gpu="h100-sxm", **{**ROOM, **args})
    assert plan.verdict == "refused"
    assert code in [reason.code for reason in plan.reasons]


def test_states_that_do_not_divide_are_refused(made):
    fields = {"state_size": 16, "conv_kernel": 4, "num_hidden_layers": 2, "hidden_size": 512, "intermediate_size": 1024}
    model = made(architectures=["FalconMambaForCausalLM"], model_type="falcon_mamba", **fields)
    plan = kvplan.plan(model, engine="sglang", gpu="h100-sxm", tp_size=2048, **ROOM)
    assert [reason.code for reason in plan.reasons] == ["states_not_divisible"]


def test_three_bit_gptq_has_no_kernel(made):
    section = {"quant_method": "gptq", "bits": 3, "group_size": 128, "sym": True, "desc_act": False}
    plan = kvplan.plan(made(quantization_config=section), engine="sglang", gpu="h100-sxm", **ROOM)
    assert [reason.code for reason in plan.reasons] == ["quantization_unsupported"]


# -- releases ---------------------------------------------------------------------------------------------------------


def test_releases_by_name():
    assert release(None).version == release("0.5").version == release("v0.5.23").version == "0.5.23"
    assert release("0.4.4.post2").version == "0.4.4"
    assert release("0.5.7").stands_for == "0.5.7"
    assert release("0.5.23").stands_for is None
    with pytest.raises(UnknownEngine):
        release("new")


def test_windows_by_release():
    shapes = {}
    for version in ("0.4.6", "0.4.10", "0.5.23"):
        plan = kvplan.plan("google/gemma-3-27b-it", engine=f"sglang@{version}", gpu="h200-sxm", **ROOM)
        shapes[version] = [pool.name for pool in plan.kv.pools]
    assert shapes == {"0.4.6": ["full"], "0.4.10": ["full", "window"], "0.5.23": ["full"]}
