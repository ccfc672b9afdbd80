"""Start-up logs of SGLang and TensorRT-LLM: whose log it is, what is read, and the plan beside it.

The figures are of public reports (sgl-project/sglang#4826, SemiAnalysisAI/InferenceX#2128, and a start on a GB10); the
lines around them are in each engine's own shape.
"""

from __future__ import annotations

import time

import pytest

from kvplan.audit.compare import audit
from kvplan.audit.engines import read_start, writer
from kvplan.cli import run
from kvplan.errors import UsageError

GEMMA = """[2025-03-20 10:00:00] server_args=ServerArgs(model_path='google/gemma-3-4b-it', dtype='auto', \
kv_cache_dtype='auto', context_length=None, tp_size=1, mem_fraction_static=None)
[2025-03-20 10:00:05 TP0] Load weight begin. avail mem=139.21 GB
[2025-03-20 10:00:15 TP0] Load weight end. type=Gemma3ForCausalLM, avail mem=131.08 GB, mem usage=8.13 GB.
[2025-03-20 10:00:16 TP0] KV Cache is allocated. #tokens: 834615, K size: 54.12 GB, V size: 54.12 GB
[2025-03-20 10:00:16 TP0] Memory pool end. avail mem=14.61 GB
"""
REFUSED = """python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V4-Pro --tp 8 --mem-fraction-static 0.88
[TP1] Load weight begin. avail mem=137.95 GB
[TP0] Load weight begin. avail mem=137.90 GB
[TP1] Load weight end. elapsed=90 s, type=X, avail mem=12.30 GB, mem usage=125.65 GB.
[TP0] Load weight end. elapsed=90 s, type=X, avail mem=12.25 GB, mem usage=125.65 GB.
RuntimeError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.88.
"""
GB10 = """[TRT-LLM] [I] TensorRT LLM version: 1.2.0
[TRT-LLM] [I] Memory used after loading model weights (inside torch) in memory usage profiling: 15.01 GiB
[TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 113.65 GiB, available KV cache memory \
when calculating max tokens: 5.95 GiB, fraction is set 0.9, kv size is 73728. device total memory 119.70 GiB, , \
tmp kv_mem 0.56 GiB
[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 65 [window size=2051], tokens per block=32, primary blocks=2710
"""
OLD_TRT = """[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 39.39 GiB, \
available: 21.89 GiB
[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 631, size 19.7 GiB
[TensorRT-LLM][INFO] tokensPerBlock: 64
"""


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        (GEMMA, "sglang"),
        (REFUSED, "sglang"),
        (GB10, "tensorrt-llm"),
        (OLD_TRT, "tensorrt-llm"),
        ("INFO vLLM API server version 0.19.0\nserves what sglang.launch_server serves\n", "vllm"),
        ("nothing of interest", "vllm"),
        ("", "vllm"),
    ],
)
def test_who_wrote_it(text, engine):
    assert writer(text) == engine
    assert read_start(text).engine == engine


def test_what_sglang_prints():
    log = read_start(GEMMA)
    assert (log.model, log.release, dict(log.flags)) == ("google/gemma-3-4b-it", None, {"tp_size": "1"})
    assert dict(log.figures) == {
        "free_gib": 139.21, "left_gib": 131.08, "load_gib": 8.13, "k_gib": 54.12, "v_gib": 54.12, "tokens": 834615,
    }  # fmt: skip


def test_the_least_memory_of_the_ranks_counts():
    log = read_start(REFUSED)
    assert (log.get("free_gib"), log.get("left_gib"), log.ranks) == (137.9, 12.25, (0, 1))


def test_a_coloured_and_wrapped_log_is_read_alike():
    wrapped = "".join(f'{{"log":"\\u001b[32m{line}\\u001b[0m","stream":"stderr"}}\n' for line in GEMMA.splitlines()[1:])
    assert read_start(wrapped).figures == read_start(GEMMA).figures


def test_sglang_s_pool_follows_from_the_memory_that_it_prints():
    found = audit(read_start(GEMMA), gpu="h200", engine="sglang@0.4.4.post2")
    rows = {row.name: row for row in found.rows}
    assert rows["tokens"].predicted == pytest.approx(834_615, rel=1e-5)
    assert rows["tokens"].holds
    assert rows["kv cache"].holds
    assert found.agrees


def test_a_pool_that_no_rounding_explains_is_no_agreement():
    text = GEMMA.replace("54.12", "51.12").replace("834615", "788000")
    found = audit(read_start(text), gpu="h200", engine="sglang@0.4.4.post2")
    assert not found.agrees


def test_sglang_s_refusal_is_predicted():
    found = audit(read_start(REFUSED), gpu="h200", engine="sglang@0.5.23")
    assert found.log.refusal == "weights_exceed_memory"
    assert found.agrees


def test_tensorrt_llm_s_rule_on_its_own_figures():
    found = audit(read_start(GB10), gpu="gb10", model="Qwen/Qwen3-4B")
    rows = {row.name: row for row in found.rows}
    assert found.log.release == "1.2.0"
    assert rows["pool by its rule"].predicted == pytest.approx(5.95, abs=0.005)
    assert (rows["a token"].printed, rows["tokens"].printed) == (73_728, 86_720)


def test_tensorrt_llm_s_older_lines():
    log = read_start(OLD_TRT)
    assert (log.get("total_gib"), log.get("spare_gib"), log.get("blocks"), log.get("block_tokens")) == (
        39.39,
        21.89,
        631,
        64,
    )


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        (GEMMA, {"gpu": "h200"}, "which release of sglang"),
        (GEMMA, {"engine": "sglang@0.5.23"}, "which card"),
        (GB10, {"gpu": "gb10"}, "which model"),
        (
            GEMMA,
            {"gpu": "h200", "engine": "sglang@0.5.23", "gpu_memory_utilization": 0.9},
            "sglang has no --gpu-memory",
        ),
    ],
)
def test_what_a_log_does_not_say_is_asked_for(text, given, message):
    with pytest.raises(UsageError, match=message):
        audit(read_start(text), **given)


@pytest.mark.parametrize(
    "words", ["Load weight end. ", "KV Cache is allocated. ", "Peak memory during memory usage profiling "]
)
def test_a_line_that_repeats_itself_costs_no_minutes(words):
    start = time.monotonic()
    read_start("ServerArgs(\n[TRT-LLM]\n" + words * 50_000)
    read_start("[TRT-LLM]\n" + words * 50_000)
    assert time.monotonic() - start < 2


def test_the_command_reads_them_too(capsys, tmp_path):
    (tmp_path / "log").write_text(GEMMA)
    assert run(["audit", str(tmp_path / "log"), "--gpu", "h200", "--engine", "sglang@0.4.4.post2"]) == 0
    out = capsys.readouterr().out
    assert "SGLang 0.4.4" in out
    assert "834,615" in out
