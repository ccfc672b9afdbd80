"""A command line as the engines' own parsers read it."""

from __future__ import annotations

import pytest

from kvplan.manifests.argv import read_argv
from kvplan.manifests.flags import table
from kvplan.manifests.tree import Place
from kvplan.manifests.variables import Field


def parsed(words: str | list[str], engine: str = "vllm", *, takes_model: bool = True):
    listed = words.split() if isinstance(words, str) else words
    known = table(engine)
    assert known is not None
    return read_argv([Field(word, Place(1, i + 1)) for i, word in enumerate(listed)], known, takes_model=takes_model)


def arguments(words, engine="vllm", **options):
    return {name: argument.value for name, argument in parsed(words, engine, **options).arguments.items()}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--max-model-len 8192", {"max_model_len": 8192}),
        ("--max_model_len=8192", {"max_model_len": 8192}),
        ("--max-model-len 32k", {"max_model_len": 32_000}),
        ("--max-model-len 32K", {"max_model_len": 32_768}),
        ("--max-model-len 1.5k", {"max_model_len": 1500}),
        ("--max-model-len auto", {"max_model_len": "auto"}),
        ("--max-model-len -1", {"max_model_len": -1}),
        ("--max-num-batched-token 2048", {"max_num_batched_tokens": 2048}),
        ("-tp 2 -pp 2 -dp 4", {"tensor_parallel_size": 2, "pipeline_parallel_size": 2, "data_parallel_size": 4}),
        ("-tp=2", {"tensor_parallel_size": 2}),
        ("-tp 2 --tensor-parallel-size 4", {"tensor_parallel_size": 4}),
        ("--device-memory-utilization 0.8", {"gpu_memory_utilization": 0.8}),
        ("--enable-prefix-caching", {"enable_prefix_caching": True}),
        ("--no-enable-prefix-caching", {"enable_prefix_caching": False}),
        ("--disable-prefix-caching", {"enable_prefix_caching": False}),
        ("--disable-log-requests", {"enable_log_requests": False}),
        ("--enforce-eager=false", {"enforce_eager": False}),
        ("--served-model-name a b --port 1", {"served_model_name": ["a", "b"], "port": 1}),
        ("--served-model-name a", {"served_model_name": "a"}),
        ("-O3", {"optimization_level": 3}),
        ("-O 2", {"optimization_level": 2}),
        ("-O=1", {"optimization_level": 1}),
        ("--compilation-config.cudagraph_mode FULL", {"compilation_config": {"cudagraph_mode": "FULL"}}),
        ("-cc.a.b=1 -cc.a.c=x", {"compilation_config": {"a": {"b": 1, "c": "x"}}}),
        ("--compilation-config.custom_ops+ a,b", {"compilation_config": {"custom_ops": ["a", "b"]}}),
        ("--kv-cache-memory-bytes 820000000", {"kv_cache_memory_bytes": 820_000_000}),
        ("--tensor-parallel-size two", {"tensor_parallel_size": "two"}),
        ("--swap-space 16", {"swap_space": 16}),
        ("--swap-space=16 --use-v2-block-manager", {"swap_space": 16, "use_v2_block_manager": True}),
        ('--rope-scaling {"a":1}', {"rope_scaling": {"a": 1}}),
        ("--gpu-memory-utilization 1", {"gpu_memory_utilization": 1.0}),
    ],
)  # fmt: skip
def test_vllm(words, expected):
    assert arguments(words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--tp 2", {"tensor_parallel_size": 2}),
        ("--tp-size 2 --dp-size 4", {"tensor_parallel_size": 2, "data_parallel_size": 4}),
        ("--ep-size 4", {"expert_parallel_size": 4}),
        ("--expert-parallel-size 4", {"expert_parallel_size": 4}),
        ("--mem-frac 0.9", {"mem_fraction_static": 0.9}),
        ("--cuda-graph-max-bs 32", {"cuda_graph_max_bs": 32}),
        ("--context-length 8192 --disable-radix-cache", {"context_length": 8192, "disable_radix_cache": True}),
    ],
)  # fmt: skip
def test_sglang(words, expected):
    assert arguments(words, "sglang") == expected


def test_tensorrt_llm_writes_underscores_and_knows_no_prefixes():
    assert arguments("m --tp_size 8 --ep_size 4 --max_seq 1", "tensorrt-llm") == {
        "tensor_parallel_size": 8, "moe_expert_parallel_size": 4, "max_seq": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "takes_model", "model"),
    [
        ("org/m --trust-remote-code", True, "org/m"),
        ("--trust-remote-code org/m", True, "org/m"),
        ("--port 1 org/m", True, "org/m"),
        ("--model org/m", True, "org/m"),
        ("--model=org/m", False, "org/m"),
        ("--disable-unheard-of org/m", True, "org/m"),
        ("org/m", False, None),
    ],
)
def test_the_model(words, takes_model, model):
    found = parsed(words, takes_model=takes_model).model
    assert (found.text if found is not None else None) == model


def test_a_switch_takes_no_word_and_a_missing_value_is_no_word_of_the_next_flag():
    assert arguments("--enforce-eager --max-model-len --port 8000") == {
        "enforce_eager": True, "max_model_len": True, "port": 8000,
    }  # fmt: skip


def test_json_in_one_word_and_merged_over():
    words = ["--speculative-config", '{"method": "ngram"}', "--speculative-config.num_speculative_tokens", "3"]
    assert arguments(words) == {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}
    assert arguments(["--hf-overrides", "{broken"]) == {"hf_overrides": "{broken"}


def test_what_the_table_lacks_is_marked_and_a_prefix_of_two_flags_is_none():
    assert not parsed("--swap-space 4").arguments["swap_space"].known
    assert parsed("--max-mod 4").arguments["max_model_len"].known
    assert not parsed("--enable 4").arguments["enable"].known


def test_flags_that_nobody_sees_are_kept_as_open_words():
    known = table("vllm")
    assert known is not None
    words = [
        Field("m"),
        Field("$ARGS", unknown=("ARGS",), open=True),
        Field("--port"),
        Field("$P", unknown=("P",), open=True),
    ]
    found = read_argv(words, known, takes_model=True)
    assert [word.text for word in found.open] == ["$ARGS"]
    assert found.arguments["port"].unknown == ("P",)


def test_a_controllers_template_has_no_value_yet():
    assert parsed(["--tensor-parallel-size", "{{ .Spec.Tensor }}"]).arguments["tensor_parallel_size"].unknown
