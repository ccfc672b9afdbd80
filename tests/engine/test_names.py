"""One role, several names: each engine's own flags, the translation between them, and what is refused."""

from __future__ import annotations

from dataclasses import fields

import pytest

from kvplan.engine.args import EngineArgs, engine_args
from kvplan.engine.names import ENGINES, NAMES, flags_for
from kvplan.engine.sglang.flags import SglangFlags
from kvplan.engine.tensorrt_llm.flags import TensorRtLlmFlags
from kvplan.errors import UsageError


def test_every_name_sets_a_field_that_there_is():
    own = {"sglang": SglangFlags, "tensorrt_llm": TensorRtLlmFlags}
    for engine in ENGINES:
        for name, target in NAMES[engine].items():
            record, _, field = target.lstrip("!").rpartition(".")
            assert field in {f.name for f in fields(own.get(record, EngineArgs))}, (engine, name)


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"tp_size": 4}, "tensor_parallel_size", 4),
        ({"tensor_parallel_size": 4}, "tensor_parallel_size", 4),
        ({"context_length": "32k"}, "max_model_len", 32_000),
        ({"mem_fraction_static": "0.8"}, "gpu_memory_utilization", 0.8),
        ({"max_running_requests": 64}, "max_num_seqs", 64),
        ({"chunked_prefill_size": -1}, "max_num_batched_tokens", -1),
        ({"disable_radix_cache": True}, "enable_prefix_caching", False),
        ({"disable_overlap_schedule": True}, "async_scheduling", False),
        ({"free_before_load": "78 GiB"}, "free_before_load", 78 * 2**30),
    ],
)
def test_sglang_s_names(given, field, value):
    assert getattr(engine_args(given, "sglang"), field) == value


@pytest.mark.parametrize(
    ("engine", "given", "hint"),
    [
        ("vllm", {"tp_size": 2}, "vllm calls it --tensor-parallel-size"),
        ("vllm", {"context_length": 8192}, "vllm calls it --max-model-len"),
        ("vllm", {"disable_radix_cache": True}, "vllm calls it --enable-prefix-caching"),
        ("sglang", {"max_model_len": 8192}, "sglang calls it --context-length"),
        ("sglang", {"gpu_memory_utilization": 0.9}, "sglang calls it --mem-fraction-static"),
        ("sglang", {"num_gpu_blocks_override": 9}, "sglang calls it --max-total-tokens"),
        ("sglang", {"cold": True}, "sglang has no such flag"),
        ("tensorrt-llm", {"max_num_seqs": 9}, "tensorrt-llm calls it --max-batch-size"),
    ],
)
def test_a_flag_of_another_engine_is_refused_with_this_one_s_name(engine, given, hint):
    with pytest.raises(UsageError) as error:
        engine_args(given, engine)
    assert error.value.hint == hint


@pytest.mark.parametrize(
    ("given", "fragment"),
    [
        ({"max_running_requests": 0}, "--max-running-requests takes a whole number"),
        ({"mem_fraction_static": 88}, "--mem-fraction-static takes a share"),
        ({"mamba_full_memory_ratio": "x"}, "--mamba-full-memory-ratio takes a ratio"),
        ({"mamba_full_memory_ratio": float("inf")}, "--mamba-full-memory-ratio takes a ratio"),
        ({"chunked_prefill_size": -2}, "--chunked-prefill-size takes a whole number"),
        ({"disable_radix_cache": "yes"}, "--disable-radix-cache is on or off"),
        ({"attention_backend": 3}, "--attention-backend takes a short name"),
        ({"tp_size": 2, "tensor_parallel_size": 2}, "given twice"),
        ({"mem_fraction_statik": 0.8}, "unknown argument"),
    ],
)
def test_messages_name_the_flag_as_it_was_written(given, fragment):
    with pytest.raises(UsageError, match=fragment):
        engine_args(given, "sglang")


def test_comparing_engines_translates_what_has_a_counterpart():
    engines = ["vllm", "sglang", "tensorrt-llm"]
    given = {
        "max_model_len": 8192,
        "kv_cache_dtype": "fp8",
        "enable_prefix_caching": False,
        "gpu_memory_utilization": 0.9,
    }
    assert flags_for("vllm", given, engines) == (given, [])
    assert flags_for("sglang", given, engines) == (
        {"context_length": 8192, "kv_cache_dtype": "fp8_e4m3", "disable_radix_cache": True},
        ["gpu_memory_utilization"],
    )
    assert flags_for("tensorrt-llm", given, engines) == (
        {"max_seq_len": 8192, "kv_cache_dtype": "fp8", "enable_block_reuse": False},
        ["gpu_memory_utilization"],
    )
