"""kvplan.lock: what it holds, that it makes a check offline, and what a diff says."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace

import pytest
from checks.checking import kvplan, pod

from kvplan.engine.args import EngineArgs
from kvplan.engine.registry import find_engine
from kvplan.errors import KvplanError
from kvplan.hardware import find_gpu
from kvplan.model.read import read_model
from kvplan.render.json import plan_object
from kvplan.sources.builtin import builtin, builtin_ids
from kvplan.sources.lockfile import Traced, lock_text, read_lock

POOL = "--kv-cache-memory-bytes=17179869184"


def test_the_fields_that_were_read_are_enough():
    for name in builtin_ids():
        checkpoint = builtin(name)
        assert checkpoint is not None
        traced = replace(checkpoint, config=Traced(checkpoint.config))
        want = planned(traced)
        assert planned(replace(checkpoint, config=traced.config.kept())) == want == planned(checkpoint), name


def planned(checkpoint) -> dict | str:
    try:
        spec = read_model(checkpoint)
        return plan_object(find_engine("vllm")(spec, EngineArgs(tensor_parallel_size=2), find_gpu("h100"), 2, None))
    except KvplanError as error:
        return error.message


def test_a_lock_is_sorted_and_reads_back(capsys, folder):
    (folder / "b.yaml").write_text(pod(f"{POOL}, --max-model-len=8192"))
    (folder / "a.yaml").write_text(pod(f"{POOL}, --max-model-len=4096", model="Qwen/Qwen3-8B"))
    assert kvplan(capsys, "lock").out == "kvplan.lock: 2 models, 2 deployments\n"
    text = (folder / "kvplan.lock").read_text()
    content = json.loads(text)
    assert list(content["deployments"]) == ["a.yaml::Pod/llm#server", "b.yaml::Pod/llm#server"]
    model = content["models"]["meta-llama/Llama-3.1-8B"]
    assert model["config"]["num_hidden_layers"] == 32
    assert model["weight_bytes"] > 15 * 10**9
    assert set(model) == {
        "id", "source", "revision", "weight_bytes", "files", "tokenizer_max_length", "config", "quant_config",
    }  # fmt: skip
    totals = content["deployments"]["b.yaml::Pod/llm#server"]
    assert (totals["tokens"], totals["max_concurrency"], totals["verdict"]) == (131_072, 16.0, "fits")
    assert lock_text(read_lock(folder / "kvplan.lock")) == text
    kvplan(capsys, "lock")
    assert (folder / "kvplan.lock").read_text() == text


def test_locked_needs_no_model_but_the_lock(capsys, folder, monkeypatch):
    (folder / "m.yaml").write_text(pod(f"{POOL}, --max-model-len=8192"))
    kvplan(capsys, "lock")
    from kvplan.checks import models

    def refuse(*_args, **_options):
        raise AssertionError("asked elsewhere")

    monkeypatch.setattr(models, "builtin", refuse)
    assert "fits: 131,072 tokens" in kvplan(capsys, "check --locked").out


def test_locked_without_a_lock_or_an_entry_names_the_command(capsys, folder):
    (folder / "m.yaml").write_text(pod())
    told = kvplan(capsys, "check --locked")
    assert (told.code, "kvplan lock" in told.err) == (2, True)
    kvplan(capsys, "lock")
    (folder / "other.yaml").write_text(pod("-tp, '2'", model="Qwen/Qwen3-8B"))
    told = kvplan(capsys, "check --locked")
    assert told.code == 2
    assert "other.yaml:9:14: error: Qwen/Qwen3-8B is not in kvplan.lock: run kvplan lock" in told.out
    assert "KVP001" in told.out  # what needs no model is checked all the same


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", '{"schema": 2}', '{"schema": 1, "models": {}}', "<html>",
        '{"schema": 1, "models": {"a/b": 1}, "deployments": {}}',
        '{"schema": 1, "models": {"a/b": {"id": "a/b", "source": "hub", "config": []}}, "deployments": {}}',
    ],
)  # fmt: skip
def test_a_damaged_lock_is_refused(capsys, folder, content):
    (folder / "m.yaml").write_text(pod())
    (folder / "kvplan.lock").write_text(content)
    told = kvplan(capsys, "check --locked")
    assert told.code == 2
    assert told.err.startswith("error: kvplan.lock")


def test_a_diff_is_a_table_of_what_changed(capsys, folder):
    (folder / "m.yaml").write_text(pod(f"{POOL}, --max-model-len=8192"))
    (folder / "same.yaml").write_text(pod(f"{POOL}, --max-model-len=4096"))
    kvplan(capsys, "lock")
    assert "No plan changes (2 the same)." in kvplan(capsys, "diff kvplan.lock").out
    (folder / "m.yaml").write_text(pod(f"{POOL}, --max-model-len=16384"))
    (folder / "new.yaml").write_text(pod(f"{POOL}, --max-model-len=8192"))
    lines = kvplan(capsys, "diff kvplan.lock").out.splitlines()
    assert lines[0] == "<!-- kvplan -->"
    row = next(line for line in lines if line.startswith("| m.yaml"))
    assert "16.00 → 8.00 (-50.0 %)" in row
    assert "8,192 → 16,384 (+100.0 %)" in row
    assert any(line.startswith("| new.yaml::Pod/llm#server (new) |") for line in lines)
    assert lines[-1] == "2 changed, 1 the same."


def test_a_diff_takes_the_json_of_a_check_and_stdin(capsys, folder, monkeypatch):
    (folder / "m.yaml").write_text(pod(f"{POOL}, --max-model-len=8192"))
    base = kvplan(capsys, "check --format json").out
    (folder / "base.json").write_text(base)
    assert "No plan changes" in kvplan(capsys, "diff base.json").out
    (folder / "m.yaml").unlink()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(base.encode())))
    assert "(gone)" in kvplan(capsys, "diff -").out


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"deployments": 1}', "\0"])
def test_another_base_is_refused(capsys, folder, content):
    (folder / "base.json").write_text(content)
    assert kvplan(capsys, "diff base.json").code == 2
    assert kvplan(capsys, "diff missing.json").code == 2


def test_a_file_that_cannot_be_read_leaves_the_lock_as_it_was(capsys, folder):
    (folder / "a.yaml").write_text(pod(POOL))
    (folder / "b.yaml").write_text("a: 1\n<<<<<<< HEAD\n")
    assert kvplan(capsys, "lock").code == 2  # said, and nothing that was locked is lost
    before = (folder / "kvplan.lock").read_text()
    assert list(json.loads(before)["deployments"]) == ["a.yaml::Pod/llm#server"]
    (folder / "a.yaml").write_text("a: 1\n<<<<<<< HEAD\n")
    (folder / "b.yaml").write_text(pod(POOL))
    done = kvplan(capsys, "lock")
    assert done.code == 2
    assert "is left as it was" in done.err
    assert (folder / "kvplan.lock").read_text() == before


def test_a_model_that_cannot_be_asked_for_costs_no_entry(capsys, folder):
    (folder / "a.yaml").write_text(pod(POOL))
    (folder / "b.yaml").write_text(pod(POOL, model="org/not-built-in"))
    done = kvplan(capsys, "lock")
    assert done.code == 3  # the new one is named, and the other is locked
    assert "b.yaml::Pod/llm#server is not locked" in done.err
    text = (folder / "kvplan.lock").read_text()
    assert list(json.loads(text)["deployments"]) == ["a.yaml::Pod/llm#server"]
    (folder / "a.yaml").write_text(pod(POOL, model="org/not-built-in"))
    done = kvplan(capsys, "lock")
    assert done.code == 3
    assert "is left as it was" in done.err
    assert (folder / "kvplan.lock").read_text() == text
