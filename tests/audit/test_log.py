"""Start-up logs of vLLM in every wording and wrapping: what is read, what is left out, and the plan beside it.

The figures are of public logs (llm-d-incubation/llm-d-planner#205 and others in tests/golden/vllm_logs.jsonl); the
lines around them are vLLM's own.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.audit.compare import Audit, audit
from kvplan.audit.log import StartLog, read_log
from kvplan.errors import KvplanError, UnreadableInput, UsageError
from kvplan.render.audit import audit_object, audit_text

FIXTURES = Path(__file__).parent.parent / "fixtures"
V1 = (FIXTURES / "readme" / "start.log").read_text(encoding="utf-8")
CONSUMED, V0, REFUSED = (
    (FIXTURES / "logs" / f"vllm_{name}.log").read_text(encoding="utf-8")
    for name in ("0.31_consumed", "0.8_v0", "0.28_refused")
)


def audited(text: str, **flags) -> Audit:
    return audit(read_log(text), **({"gpu": "h100-sxm"} | flags))


def same(found: StartLog, wanted: StartLog) -> bool:
    return (found.figures, found.flags, found.model, found.release) == (
        wanted.figures,
        wanted.flags,
        wanted.model,
        wanted.release,
    )


# -- wordings ---------------------------------------------------------------------------------------------------------


def test_the_wording_of_v1():
    log = read_log(V1)
    assert (log.release, log.model) == ("0.19.0", "meta-llama/Llama-3.1-8B")
    assert log.figures == {
        "total_gib": 79.19, "free_gib": 78.68, "utilization": 0.95, "requested_gib": 75.23, "load_gib": 14.99,
        "activation_gib": 1.89, "non_torch_gib": 0.25, "graphs_gib": 0.91, "kv_gib": 58.11, "tokens": 476016,
        "concurrency": 58.11, "concurrency_len": 8192,
    }  # fmt: skip
    assert log.flags["max_model_len"] == 8192
    assert log.flags["tensor_parallel_size"] == 1
    assert log.flags["enforce_eager"] is False
    assert not {"quantization", "kv_cache_dtype"} & log.flags.keys()


def test_the_wording_of_consumed_memory_and_the_single_line():
    log = read_log(CONSUMED)
    assert log.get("consumed_gib") == 15.26
    assert log.get("activation_gib") == 1.44
    assert log.get("non_torch_gib") is None
    assert (log.get("tokens"), log.get("concurrency")) == (460496, 3.51)


def test_the_wording_of_v0():
    log = read_log(V0)
    assert log.release == "0.8.3"
    wanted = {"total_gib": 39.38, "utilization": 0.95, "load_gib": 34.43, "non_torch_gib": 0.43, "kv_gib": 0.04}
    assert {name: log.get(name) for name in wanted} == wanted
    assert log.get("blocks") == 32


def test_a_refusal():
    log = read_log(REFUSED)
    assert log.refusal == "max_model_len_does_not_fit"
    assert (log.get("needed_gib"), log.get("left_gib"), log.get("estimated_len")) == (7.0, 6.66, 248832)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "Free memory on device (20.1/79.19 GiB) on startup is less than desired GPU memory utilization (0.9, 71.27",
            "free_memory_below_request",
        ),
        ("ValueError: No available memory for the cache blocks. Try increasing", "no_kv_memory"),
    ],
)
def test_the_other_refusals(line, code):
    assert read_log(line).refusal == code


def test_warm_and_cold_starts():
    assert read_log("Directly load the compiled graph(s) for dynamic shape from the cache, took 3 s").cold is False
    assert read_log("Compiling a graph for dynamic shape takes 12.9 s").cold is True
    assert read_log(V1).cold is None


# -- wrappings --------------------------------------------------------------------------------------------------------


def test_colours_times_and_carriage_returns():
    painted = V1.replace("INFO", "\x1b[32mINFO\x1b[0m").replace("(EngineCore", "\x1b[0;36m(EngineCore\x1b[0;0m")
    assert same(read_log(painted), read_log(V1))
    assert same(read_log(V1.replace("\n", "\r\n")), read_log(V1))
    stamped = "".join(f"2026-05-01T09:00:00.123456789Z stdout F {line}\n" for line in V1.splitlines())
    assert same(read_log(stamped), read_log(V1))


@pytest.mark.parametrize("key", ["log", "message", "textPayload", "MESSAGE"])
def test_json_wrapped_lines(key):
    wrapped = "".join(json.dumps({"time": "x", key: f"{line}\n", "pod": "a"}) + "\n" for line in V1.splitlines())
    assert same(read_log(wrapped), read_log(V1))


def test_of_several_ranks_the_first_is_read():
    text = "".join(
        f"(Worker_TP{rank} pid={rank}) INFO Available KV cache memory: {60 + rank / 10:.2f} GiB\n"
        for rank in (2, 0, 1, 3)
    )
    log = read_log(text)
    assert log.get("kv_gib") == 60.0
    assert log.ranks == (0, 1, 2, 3)


def test_a_truncated_log_says_what_is_missing():
    found = audited(V1[: V1.index("(EngineCore pid=9) INFO 05-01 09:01:10 [gpu_worker")])
    assert found.missing == ("available KV memory", "tokens", "card memory")
    assert "the log prints no pool to compare with" in "\n".join(audit_text(found))


# -- the plan beside it -----------------------------------------------------------------------------------------------


def test_predicted_beside_printed():
    found = audited(V1)
    rows = {row.name: row for row in found.rows}
    assert abs(rows["kv cache"].difference) <= 0.01
    assert rows["kv cache"].holds
    assert rows["tokens"].predicted == pytest.approx(476016, rel=1e-3)
    assert found.explains is None
    assert found.agrees


def test_the_line_that_explains_the_difference():
    assert audited(V1.replace("0.25 GiB for", "1.75 GiB for").replace("58.11 GiB", "56.61 GiB")).explains == "non-torch"
    heavier = V1.replace("took 14.99", "took 17.99").replace("58.11 GiB", "55.11 GiB")
    found = audited(heavier)
    assert found.explains == "model"
    assert not found.agrees
    assert "most of it in: model" in "\n".join(audit_text(found))


def test_newer_releases_are_compared_in_their_own_grouping():
    found = audited(CONSUMED, gpu="a100-80gb-sxm")
    names = [row.name for row in found.rows]
    assert "model and non-torch" in names
    assert "non-torch" not in names
    assert found.agrees


def test_the_card_is_told_by_its_memory_or_asked_for():
    found = audit(read_log(V1.replace("79.19", "178.36").replace("78.68", "177.6")), gpu="b200")
    assert not found.gpu_assumed
    with pytest.raises(UsageError, match="GiB of memory but no card") as caught:
        audit(read_log(CONSUMED.replace("79.25", "3.21")))
    assert "--gpu" in (caught.value.hint or "")


def test_a_refusal_is_compared_by_its_kind():
    found = audited(REFUSED, gpu="rtx-5090", model="Qwen/Qwen3-32B", max_model_len=40960)
    assert found.log.refusal == "max_model_len_does_not_fit"
    assert audit_object(found)["refusal"]["printed"] == "max_model_len_does_not_fit"


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", UnreadableInput, "no line of a vLLM start-up"),
        ("nginx: [notice] worker process 12 exited\n" * 50, UnreadableInput, "no line of a vLLM start-up"),
        ("INFO Available KV cache memory: 10 GiB", UsageError, "which model"),
        (V1.replace("0.19.0", "nightly"), UsageError, "which release"),
    ],
)
def test_what_the_log_does_not_say_is_asked_for_and_never_guessed(text, error, words):
    with pytest.raises(error, match=words):
        audited(text)


def test_what_is_given_goes_before_what_is_printed():
    found = audited(V1, engine="vllm@0.20", max_model_len=4096)
    assert found.plan.engine_version == "0.20.0"
    assert found.plan.engine_settings["max_model_len"] == 4096


# -- hostile input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Available KV cache memory: " + "9" * 400 + " GiB",
        "Available KV cache memory: -" + "1" * 60_000,
        "{" * 60_000 + "}",
        '{"log": ' * 30_000 + "}" * 30_000,
        "\x1b[" * 30_000,
        "Free memory on device" + "(" * 60_000,
        "non-default args: {" + "'model': " * 7000,
        "GPU KV cache size: " + "," * 60_000 + " tokens",
        "vllm serve " + "a/" * 30_000,
        ("GiB tokens engine args: " * 2700 + "\n") * 20,
    ],
)
def test_hostile_lines_are_read_in_time(text):
    start = time.process_time()
    log = read_log(text)
    assert time.process_time() - start < 2
    assert all(abs(value) <= 1e12 for value in log.figures.values())


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("PyTorch activation peak memory takes -0.5GiB", "activation of -0.5 GiB"),
        ("Actual usage is 14.99 GiB for weight, nan GiB for peak activation", "activation of nan GiB"),
        ("Model loading took inf GiB memory", "load of inf GiB"),
        ("Model loading took 1025 GiB memory", "load of 1025 GiB"),
        ("desired GPU memory utilization (1.5, 71.27 GiB)", "utilization of 1.5"),
    ],
)
def test_a_line_with_a_figure_that_no_start_prints_is_not_read(line, told):
    log = read_log(f"\n{line}\n")
    assert (dict(log.figures), log.unread) == ({}, (f"line 2: {told}",))


def test_a_pool_below_nothing_is_what_an_engine_prints_before_it_refuses():
    assert read_log("Available KV cache memory: -2.5 GiB").get("kv_gib") == -2.5


def test_what_the_card_does_not_hold_is_left_out():
    found = audited(V1.replace("0.25 GiB for", "90.00 GiB for"))
    assert found.log.get("non_torch_gib") is None
    assert "  note: non torch of 90 GiB, where the card has 79." in "\n".join(audit_text(found))


def test_a_rank_and_a_total_of_any_length_are_no_mistake():
    assert read_log("rank=" + "9" * 5000 + " KV cache size: 5 tokens").figures == {"tokens": 5}
    assert read_log("Free memory on device (78.68/7.9.1.9 GiB) on startup").figures == {"free_gib": 78.68}


def test_a_number_of_too_many_digits_is_not_cut_to_one_of_fewer():
    assert read_log("args: max_model_len=" + "8" * 13 + ", max_num_seqs=64").flags == {"max_num_seqs": 64}
    assert read_log("GPU KV cache size: " + "9" * 40 + " tokens").figures == {}


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400) | st.sampled_from([V1, CONSUMED, V0, REFUSED]), st.data())
def test_any_text_is_read_or_refused(text, data):
    cut = data.draw(st.integers(0, len(text)))
    junk = data.draw(st.text(max_size=30))
    log = read_log(text[:cut] + junk + text[cut:])
    with suppress(KvplanError):
        found = audit(log, gpu="h100-sxm", model="meta-llama/Llama-3.1-8B", engine="vllm@0.19")
        assert audit_text(found)
        json.dumps(audit_object(found))
