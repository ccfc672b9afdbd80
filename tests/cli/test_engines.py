"""`kvplan size --engine …`: another engine's own flags, several engines side by side."""

from __future__ import annotations

import json
import re
from math import prod

import pytest

import kvplan
from kvplan.cli import run
from kvplan.schemas import SCHEMAS

LLAMA = "meta-llama/Llama-3.1-8B"
SGLANG = ["size", LLAMA, "--gpu", "h100-sxm", "--engine", "sglang"]


def call(capsys, *words: str) -> tuple[int, str, str]:
    code = run(list(words))
    told = capsys.readouterr()
    return code, told.out, told.err


def test_sglang_by_its_own_flags_as_its_parser_takes_them(capsys):
    memory = ["--free-before-load", "78 GiB", "--free-after-load=60 GiB"]
    words = ["--tp", "2", "--context-len", "8192", "--mem-fraction-static=0.8", "--disable-radix-cache", *memory]
    code, out, err = call(capsys, *SGLANG, *words, "--format", "json")
    plan = json.loads(out)
    SCHEMAS["size"].model_validate(plan)
    assert (code, err) == (0, "")
    shown = plan["engine"]["args"]
    assert (shown["tp_size"], shown["context_length"], shown["disable_radix_cache"]) == (2, 8192, True)
    assert plan["kv"]["pools"] == [{"name": "full", "size": plan["kv"]["tokens"], "item_bytes": 65_536}]
    assert plan["kv"]["max_running_requests"] == 4096


def test_the_text_says_what_the_fraction_is_of(capsys):
    code, out, _ = call(capsys, *SGLANG, "--free-before-load", "78 GiB", "--free-after-load", "60 GiB")
    assert code == 0
    assert "0.83 of 78.0 GiB free before the load" in out
    assert "fits: 382,894 tokens, 2.92 requests of 131,072" in out


def test_help_lists_the_flags_of_the_asked_engine(capsys):
    _, out, _ = call(capsys, "size", "--engine", "sglang", "--help")
    assert "Flags of sglang:" in out
    assert "--mem-fraction-static" in out
    _, out, _ = call(capsys, "size", "--help")
    assert "--mem-fraction-static" not in out


def test_several_values_of_its_own_flags_give_a_matrix(capsys):
    code, out, _ = call(capsys, *SGLANG, "--tp-size", "1,2", "--context-length", "8k,16k")
    assert code == 0
    assert len(out.splitlines()) == 1 + 4


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ([*SGLANG, "--max-model-len", "8192"], "--max-model-len is a flag of vllm", "sglang calls it --context-length"),
        (["size", LLAMA, "--tp-size", "2"], "--tp-size is a flag of sglang", "vllm calls it --tensor-parallel-size"),
        ([*SGLANG, "--served-model-name", "x"], "no flag that kvplan plans by", "moves no memory"),
        ([*SGLANG, "--context-length"], "--context-length needs a value", ""),
        ([*SGLANG, "--context-length", "8k", "--context-length", "9k"], "--context-length is given twice", ""),
        ([*SGLANG, "--no-such-flag", "2"], "No such option: --no-such-flag", ""),
        (["size", LLAMA, "--engine", "vllm,vllm"], "takes engines, each once", ""),
        (["size", LLAMA, "--engine", "vllm,sglan"], "does not plan the engine 'sglan'", "sglang"),
        (["size", LLAMA, "--engine", "sglang@x"], "'x' is no release of SGLang", ""),
        (["size", LLAMA, "--engine", "vllm,sglang", "--gpu", "l4,h100"], "compared on one card", ""),
    ],
)
def test_what_cannot_be_read_is_one_line(capsys, words, error, hint):
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert error in err.splitlines()[0]
    assert hint in err


@pytest.mark.parametrize("name", ["trtllm", "trt-llm", "trtllm@1.2", "vllm,trtllm"])
def test_other_names_of_an_engine(capsys, name):
    words = ["size", LLAMA, "--gpu", "h100-sxm", "--max-seq-len", "8192", "--engine"]
    theirs = call(capsys, *words, name)
    assert theirs == call(capsys, *words, name.replace("trtllm", "tensorrt-llm").replace("trt-llm", "tensorrt-llm"))
    assert theirs[0] == 0
    made = kvplan.plan(LLAMA, engine=name.rpartition(",")[2], max_seq_len=8192)
    assert made.engine == "tensorrt-llm"
    code, out, _ = call(
        capsys, "fit", LLAMA, "--concurrency", "4", "--context", "8k", "--gpu", "h100", "--engine", name
    )
    assert code == 0
    assert "trt" not in out
    code, _, err = call(capsys, *words, "trtlm")
    assert (code, err.splitlines()[0]) == (
        2,
        "error: kvplan does not plan the engine 'trtlm'",
    )  # not: the flag is wrong


def test_explain_answers_for_one_deployment(capsys):
    for words in (["--engine", "vllm,sglang"], ["-tp", "1,2"]):
        code, out, err = call(capsys, "size", LLAMA, "--gpu", "h100-sxm", "--explain", *words)
        assert (code, out) == (2, "")
        assert err == "error: --explain answers for one deployment, in text or markdown\n"


def test_engines_side_by_side_and_the_rule_between_them(capsys):
    words = ["size", "openai/gpt-oss-20b", "--gpu", "h100-sxm", "--engine", "vllm,sglang"]
    code, out, _ = call(capsys, *words)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[3:5]] == ["vLLM", "SGLang"]
    assert "by its rule for a token's bytes" in out
    assert_factors_make_the_ratio(out)
    code, out, _ = call(capsys, *words, "--format", "json")
    told = json.loads(out)
    (difference,) = told["differences"]
    first, second = (plan["kv"]["tokens"] for plan in told["plans"])
    assert difference["tokens_ratio"] == pytest.approx(max(first, second) / min(first, second))
    assert difference["memory_ratio"] / difference["bytes_per_token_ratio"] == pytest.approx(difference["tokens_ratio"])


def assert_factors_make_the_ratio(out: str) -> None:
    """Hold what a line with two rules prints to its own arithmetic."""
    number = r"([0-9.]+)"
    told = re.findall(rf"holds {number} x the tokens.* is {number} by its rule.* x {number} by its rule", out)
    assert told
    for ratio, *factors in told:
        assert prod(map(float, factors)) == pytest.approx(float(ratio), rel=0.01)


def test_both_rules_are_named_where_both_make_the_difference(capsys):
    code, out, _ = call(capsys, "size", "openai/gpt-oss-20b", "--gpu", "l4", "--engine", "vllm,sglang,tensorrt-llm")
    assert code == 0
    assert "of SGLang, which is 2.08 by its rule for memory" in out
    assert "x 1.74 by its rule for a token's bytes (25,373 against 44,237)" in out
    assert_factors_make_the_ratio(out)
    verdicts = [line.split()[-1] for line in out.splitlines()[3:6]]
    assert verdicts == ["fits", "starts", "fits"]  # SGLang's pool holds 0.39 of a request


def test_memory_makes_the_difference_where_a_token_costs_the_same(capsys):
    words = ["size", LLAMA, "--gpu", "h100-sxm", "--engine", "vllm,sglang,tensorrt-llm", "--format", "json"]
    _, out, err = call(capsys, *words, "--gpu-memory-utilization", "0.8")
    assert {one["rule"] for one in json.loads(out)["differences"]} <= {"memory", "none"}
    assert err.count("--gpu-memory-utilization has no counterpart") == 2
