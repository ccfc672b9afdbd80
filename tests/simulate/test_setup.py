"""From a plan to a scheduler and its clock: pools, groups, and what a step reads and computes."""

from __future__ import annotations

import json

import pytest

import kvplan
from kvplan.errors import UsageError, WouldNotStart
from kvplan.simulate.clock import Clock
from kvplan.simulate.deployment import Ask, changed, deploy, parse_changes
from kvplan.simulate.setup import settings_of
from kvplan.simulate.step_model import active_parameters, step_model, swap_cost

LLAMA = "meta-llama/Llama-3.1-8B"
POOL = {"gpu": "h100-sxm", "kv_cache_memory_bytes": 60 << 30, "max_model_len": 32_768}


@pytest.mark.parametrize(
    ("model", "blocks", "groups"),
    [
        (LLAMA, 30_720, (None,)),
        ("deepseek-ai/DeepSeek-V3", 57_299, (None,)),
        ("mistralai/Mistral-7B-v0.1", 30_720, (4096,)),
        ("openai/gpt-oss-120b", 109_226, (128, None)),
        ("google/gemma-3-27b-it", 49_152, (*[1024] * 6, None)),
    ],
)
def test_the_pool_of_a_plan(model, blocks, groups):
    settings = settings_of(kvplan.plan(model, **POOL), arrival="clock")
    assert (settings.num_blocks, settings.block_size, settings.groups) == (blocks, 16, groups)
    assert settings.async_scheduling
    assert settings.arrival == "clock"


@pytest.mark.parametrize(
    ("model", "flags", "says"),
    [
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", POOL, "Qwen3-Next-80B-A3B-Instruct keeps recurrent states"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", POOL, "chunked"),
        (LLAMA, {}, "no pool"),
        (LLAMA, {**POOL, "kv_cache_memory_bytes": 1 << 30}, "would not start"),
        (LLAMA, {"engine": "sglang", "gpu": "h100-sxm"}, "not that of sglang"),
    ],
)
def test_what_cannot_be_simulated_is_refused(model, flags, says):
    with pytest.raises((UsageError, WouldNotStart), match=says):
        settings_of(kvplan.plan(model, **flags))


@pytest.mark.parametrize("model", ["Qwen/Qwen3-Next-80B-A3B-Instruct", "ai21labs/AI21-Jamba-1.5-Mini"])
@pytest.mark.parametrize("flags", [{"gpu": "mi350x"}, {"gpu": "l4"}, {}])
def test_recurrent_states_are_refused_by_name_whatever_the_card(model, flags):
    """Before the clock is modelled and before a plan that would not start is: neither is what is in the way."""
    with pytest.raises(UsageError, match=f"^{model} keeps recurrent states, for which kvplan has no scheduler rules$"):
        deploy(Ask(kvplan.load_model(model), flags, {}))


def test_a_form_without_rules_is_named_before_the_clock():
    with pytest.raises(UsageError, match="no scheduler rules for groups of kind chunked"):
        deploy(Ask(kvplan.load_model("meta-llama/Llama-4-Scout-17B-16E-Instruct"), POOL, {}))


@pytest.mark.parametrize(
    ("model", "billions"),
    [(LLAMA, 7.0), ("openai/gpt-oss-120b", 4.5), ("deepseek-ai/DeepSeek-V3", 35.6), ("google/gemma-3-27b-it", 25.6)],
)
def test_the_parameters_that_compute_a_token(model, billions):
    """Published: 8.0, 5.1, 37 and 27 billion, with embeddings and output heads, which are not counted here."""
    assert active_parameters(kvplan.plan(model, **POOL)) / 10**9 == pytest.approx(billions, rel=0.02)


def test_the_clock_of_a_plan():
    model = step_model(kvplan.plan(LLAMA, gpu="h100-sxm", max_model_len=8192))
    assert model.basis == "modelled"
    assert model.clock.step_ps / 10**9 == pytest.approx(16.09 / 3.35, rel=0.01)  # ms: weights at the card's bandwidth
    assert model.clock.kv_token_ps == pytest.approx(131_072 / 3.35, abs=1)  # 128 KiB in ns, a thousandth each
    assert model.clock.request_ps == 0
    halved = step_model(kvplan.plan(LLAMA, gpu="h100-sxm", max_model_len=8192), bandwidth=1_675_000_000_000)
    assert halved.clock.step_ps == pytest.approx(2 * model.clock.step_ps, abs=2)
    windowed = step_model(kvplan.plan("mistralai/Mistral-7B-v0.1", **POOL)).clock
    assert (windowed.kv_token_ps, windowed.request_ps > 0) == (0, True)


def test_what_verify_measured_is_the_bandwidth(tmp_path, monkeypatch):
    monkeypatch.setenv("KVPLAN_HOME", str(tmp_path))
    (tmp_path / "cards").mkdir()
    saved = {"gpu": "h100-sxm", "memory_bytes": 85 * 10**9, "context_bytes": 5 * 10**8, "read_bandwidth": 3 * 10**12,
             "copy_bandwidth": 28 * 10**11, "saved": "2025-11-29"}  # fmt: skip
    (tmp_path / "cards/h100-sxm.json").write_text(json.dumps(saved), encoding="utf-8")
    ask = Ask(kvplan.load_model(LLAMA), {"gpu": "h100-sxm", "max_model_len": "8192"}, {}, local=True)
    found = deploy(ask)
    assert found.clock.clock.kv_token_ps == round(131_072 / 3)
    assert "3.00 TB/s as verify measured" in found.clock.why[0]


def test_a_step_that_schedules_nothing_takes_no_time():
    assert Clock().duration_ns(0, 0, 0) == 0
    assert Clock().duration_ns(8192, 8192, 14) == 210_127_680
    assert Clock(1500, 0, 0).duration_ns(1, 1, 1) == 1


def test_swapping_is_twice_the_bytes_over_the_link():
    swap = swap_cost(kvplan.plan(LLAMA, gpu="h100-sxm", max_model_len=8192))
    assert swap is not None
    assert swap.token_ns == pytest.approx(2 * 131_072 / 51.2)  # 64 GB/s a direction, 80 % of it


def test_other_values_are_planned_anew():
    spec = kvplan.load_model(LLAMA)
    ask = Ask(spec, {"gpu": "h100-sxm", "max_model_len": "8192"}, {"arrival": "clock"})
    base, narrow = deploy(ask), deploy(changed(ask, parse_changes("kv_cache_dtype=fp8, tp=2, watermark=0.1")))
    assert narrow.settings.num_blocks > 4 * base.settings.num_blocks
    assert narrow.settings.watermark == 0.1
    assert narrow.settings.arrival == "clock"


def test_settings_without_a_model():
    ask = Ask(None, {"max_num_seqs": "8"}, {"num_blocks": 50, "max_model_len": 64})
    assert deploy(ask).settings.max_num_seqs == 8
    assert deploy(changed(ask, {"block_size": 32})).settings.block_size == 32
    assert deploy(ask).clock.basis == "convention"
    for change in ({"kv_cache_dtype": "fp8"}, {"gpu": "h100"}):
        with pytest.raises(UsageError, match="MODEL"):
            changed(ask, change)
    with pytest.raises(UsageError, match="takes a MODEL"):
        deploy(Ask(None, {"dtype": "auto"}, {"num_blocks": 50}))


@pytest.mark.parametrize("text", ["x", "=5", "a=", "a=1,a=2"])
def test_changes_that_are_not_read(text):
    with pytest.raises(UsageError, match="--compare"):
        parse_changes(text)
