"""`kvplan audit`, its files, and the local observations that later plans use, name and forget."""

from __future__ import annotations

import io
import json
import sys

import pytest
from audit.test_log import CONSUMED, V1

import kvplan
from kvplan.cli import run
from kvplan.errors import UnreadableInput, UsageError
from kvplan.observations import MAX_FILE, forget, observations
from kvplan.schemas import SCHEMAS

LLAMA = "meta-llama/Llama-3.1-8B"
OTHER = V1.replace("0.25 GiB for", "0.85 GiB for").replace("58.11 GiB", "57.51 GiB")


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("KVPLAN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def log(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "start.log"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def call(capsys, *words: str) -> tuple[int, str, str]:
    code = run(list(words))
    told = capsys.readouterr()
    return code, told.out, told.err


def non_torch(**flags):
    plan = kvplan.plan(LLAMA, **({"gpu": "h100-sxm", "engine": "vllm@0.19", "max_model_len": 8192} | flags))
    return next(line for line in plan.budget.lines if line.name == "non_torch")


# -- the command ------------------------------------------------------------------------------------------------------


def test_a_log_that_came_out_as_planned(capsys, log):
    code, out, err = call(capsys, "audit", log(V1), "--gpu", "h100-sxm")
    assert (code, err) == (0, "")
    assert "kv cache" in out
    assert "58.11" in out
    assert "pool: " in out


def test_a_log_that_did_not_exits_with_one(capsys, log):
    code, out, _ = call(capsys, "audit", log(V1.replace("58.11 GiB", "40.00 GiB")), "--gpu", "h100-sxm")
    assert code == 1
    assert "outside of the interval" in out


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (("476,016 tokens", "100 tokens"), "tokens: the predicted pool holds 473,"),
        (("request: 58.11x", "request: 0.01x"), "concurrency: the predicted pool holds 57."),
    ],
)
def test_a_pool_that_holds_something_else_than_predicted_exits_with_one(capsys, log, changed, told):
    code, out, _ = call(capsys, "audit", log(V1.replace(*changed)), "--gpu", "h100-sxm")
    assert code == 1
    assert told in out


def test_a_log_without_a_pool_can_not_be_answered(capsys, log):
    lines = [line for line in V1.splitlines() if "kv" not in line.lower()]
    code, out, _ = call(capsys, "audit", log("\n".join(lines)), "--gpu", "h100-sxm")
    assert code == 2
    assert "the log prints no pool to compare with" in out
    code, out, _ = call(capsys, "audit", log("\n".join(lines)), "--gpu", "h100-sxm", "--format", "json")
    assert (code, json.loads(out)["agrees"]) == (2, None)


def test_json_and_stdin(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(V1.encode())))
    code, out, _ = call(capsys, "audit", "-", "--gpu", "h100-sxm", "--format", "json")
    found = json.loads(out)
    assert code == 0
    SCHEMAS["audit"].model_validate(found)
    assert found["engine"]["printed"] == "0.19.0"
    assert {row["name"] for row in found["rows"]} >= {"model", "activations", "non-torch", "kv cache", "tokens"}
    assert found["agrees"] is True


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["audit"], 2, "nothing to audit"),
        (["audit", "no-such.log"], 2, "cannot read no-such.log"),
        (["audit", "--forget", "feedbeef"], 2, "no local observation"),
    ],
)
def test_errors_are_one_line(capsys, words, code, told):
    found, out, err = call(capsys, *words)
    assert (found, out) == (code, "")
    assert told in err
    assert err.count("\n") <= 2


def test_a_log_beyond_all_bounds(capsys, log, monkeypatch):
    monkeypatch.setattr("kvplan.audit.lines.MAX_BYTES", 1000)
    code, _, err = call(capsys, "audit", log(V1), "--gpu", "h100-sxm")
    assert code == 2
    assert "larger than" in err


# -- what is kept -----------------------------------------------------------------------------------------------------


def test_saved_used_named_listed_and_forgotten(capsys, log):
    assert non_torch().basis == "modelled"
    code, _, err = call(capsys, "audit", log(OTHER), "--gpu", "h100-sxm", "--save")
    assert code in (0, 1)
    kept = observations()[0]
    assert f"saved: {kept.id}" in err
    code, out, _ = call(capsys, "audit", "--list")
    assert (code, kept.id in out) == (0, True)
    code, out, _ = call(capsys, "audit", "--list", "--format", "json")
    assert json.loads(out)["observations"][0]["id"] == kept.id

    measured = non_torch(local=True)
    assert measured.basis == "measured"
    assert kept.id in measured.why
    assert abs(measured.bytes - 0.85 * 2**30) < 2**30 / 100
    code, out, _ = call(capsys, "size", LLAMA, "--gpu", "h100-sxm", "--engine", "vllm@0.19", "--max-model-len", "8192")
    assert kept.id in out
    _, out, _ = call(
        capsys, "size", LLAMA, "--gpu", "h100-sxm", "--engine", "vllm@0.19", "--max-model-len", "8192", "--no-local"
    )
    assert kept.id not in out

    assert call(capsys, "audit", "--forget", kept.id)[0] == 0
    assert observations() == []
    assert non_torch(local=True).basis == "modelled"


def test_a_plan_from_python_reads_none_unless_asked(capsys, log):
    call(capsys, "audit", log(OTHER), "--gpu", "h100-sxm", "--save")
    assert non_torch().basis == "modelled"
    assert non_torch(local=True).basis == "measured"


@pytest.mark.parametrize(
    "flags",
    [
        {"gpu": "h200-sxm"},
        {"engine": "vllm@0.18"},
        {"tensor_parallel_size": 2},
        {"pipeline_parallel_size": 2},
    ],
)
def test_an_observation_is_of_one_card_release_and_count_of_ranks(capsys, log, flags):
    call(capsys, "audit", log(OTHER), "--gpu", "h100-sxm", "--save")
    assert non_torch(local=True, **flags).basis == "modelled"


def test_the_peak_is_of_one_model_and_its_settings_but_not_what_torch_does_not_hold(capsys, log):
    call(capsys, "audit", log(OTHER), "--gpu", "h100-sxm", "--save")

    def bases(model: str, **flags) -> dict[str, str]:
        found = kvplan.plan(model, gpu="h100-sxm", engine="vllm@0.19", max_model_len=8192, local=True, **flags)
        return {line.name: line.basis for line in found.budget.lines}

    assert bases(LLAMA)["activations"] == "measured"
    assert bases(LLAMA, max_num_seqs=64)["activations"] == "modelled"
    assert bases("Qwen/Qwen3-8B")["activations"] == "modelled"
    assert bases("Qwen/Qwen3-8B")["non_torch"] == "measured"
    assert bases(LLAMA, non_torch="1 GiB")["non_torch"] == "given"


def test_a_saved_start_is_met_by_the_next_plan(capsys, log):
    for text, card, engine in ((OTHER, "h100-sxm", "vllm@0.19"), (CONSUMED, "a100-80gb-sxm", "vllm@0.31")):
        call(capsys, "audit", log(text), "--gpu", card, "--save")
        printed = 57.51 if text is OTHER else 56.21
        length, share = (8192, 0.95) if text is OTHER else (131072, 0.92)
        plan = kvplan.plan(
            LLAMA, gpu=card, engine=engine, max_model_len=length, gpu_memory_utilization=share, local=True
        )
        assert abs(plan.budget.kv_bytes / 2**30 - printed) <= 0.03


def test_the_same_start_saved_twice_is_one(capsys, log):
    for _ in range(2):
        call(capsys, "audit", log(OTHER), "--gpu", "h100-sxm", "--save")
    assert len(observations()) == 1
    assert forget("all") == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "{" * 10_000,
        '{"engine": "vllm"}',
        "\xff",
        " " * (MAX_FILE + 1) + "{}",
    ],
)
def test_a_file_that_is_no_observation_is_named(own_home, text):
    folder = own_home / "observations"
    folder.mkdir(parents=True)
    (folder / "bad.json").write_text(text, encoding="latin-1")
    with pytest.raises(UnreadableInput, match=r"bad\.json is no observation"):
        observations()


def test_lines_of_any_size_are_no_observation(capsys, log, own_home):
    call(capsys, "audit", log(OTHER), "--gpu", "h100-sxm", "--save")
    path = next((own_home / "observations").iterdir())
    held = json.loads(path.read_text())
    for size in (1.5, True, "9"):
        path.write_text(json.dumps(held | {"lines": {"non_torch": size}}))
        with pytest.raises(UnreadableInput):
            observations()


@pytest.mark.parametrize(
    "lines",
    [
        {"non_torch": 2**60},
        {"non_torch": -(2**60)},
        {"non_torch": 10**4000},
        {"activations": -900 * 2**30},
        {"non_torch": -(2**29)},
        {"post_load": -(2**34)},
        {"activations": 50 * 2**30, "non_torch": 50 * 2**30},
        {"weights": 2**30},
        {"kv_cache": 2**36},
    ],
)
def test_an_observation_that_no_card_can_have_made_is_left_out_with_a_note(capsys, log, own_home, lines):
    call(capsys, "audit", log(OTHER), "--gpu", "h100-sxm", "--save")
    path = next((own_home / "observations").iterdir())
    path.write_text(json.dumps(json.loads(path.read_text()) | {"lines": lines}))
    plan = kvplan.plan(LLAMA, gpu="h100-sxm", engine="vllm@0.19", max_model_len=8192, local=True)
    without = kvplan.plan(LLAMA, gpu="h100-sxm", engine="vllm@0.19", max_model_len=8192)
    assert plan.budget == without.budget
    (note,) = [note for note in plan.warnings if note.code == "observation_left_out"]
    assert note.hint == f"kvplan audit --forget {path.stem}"
    assert "left out: " in call(capsys, "audit", "--list")[1]


def test_figures_that_no_card_holds_are_not_kept(capsys, log):
    poison = V1.replace("0.25 GiB for", "-500.00 GiB for").replace("1.89 GiB for", "-900.00 GiB for")
    code, out, _ = call(capsys, "audit", log(poison), "--gpu", "h100-sxm", "--save")
    assert code == 0
    assert "note: line 9: activation of -900 GiB: not read, as no start prints it" in out
    assert observations()[0].lines.keys() == {"post_load", "allocator"}
    assert non_torch(local=True).basis == "modelled"


def test_a_card_that_the_log_itself_makes_large_keeps_nothing(capsys, log, own_home):
    poison = V1.replace("/79.19 GiB", "/1000.00 GiB").replace("1.89 GiB for", "300.00 GiB for")
    code, _, err = call(capsys, "audit", log(poison), "--gpu", "h100-sxm", "--save")
    assert code == 2
    assert "nothing is kept of the log: it gives 300.00 GiB of activations, where the card has 79." in err
    assert not (own_home / "observations").exists()


def test_a_home_that_cannot_be_written(capsys, log, own_home):
    own_home.write_text("a file")
    code, _, err = call(capsys, "audit", log(OTHER), "--gpu", "h100-sxm", "--save")
    assert code == 2
    assert "cannot write" in err
    assert "KVPLAN_HOME" in err


def test_an_id_that_is_a_path_deletes_nothing(own_home):
    own_home.mkdir()
    (own_home / "keep.json").write_text("{}")
    with pytest.raises(UsageError):
        forget("../keep")
    assert (own_home / "keep.json").exists()
