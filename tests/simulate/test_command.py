"""`kvplan simulate` from the command line: replays, comparisons, formats, pictures, refusals."""

from __future__ import annotations

import csv
import io
import json

import pytest

from kvplan.cli import run
from kvplan.schemas import SCHEMAS
from kvplan.simulate import event
from kvplan.simulate.series import RequestRow, StepRow

POOL = ["--num-gpu-blocks-override", "301", "--max-num-seqs", "32", "--max-model-len", "4096"]
LOAD = ["--synthetic", "prompt=exp(200) output=exp(60) rate=20 requests=150"]


def call(capsys, *words: str) -> tuple[int, str, str]:
    code = run(["simulate", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_replay_interface(tmp_path, capsys):
    """--settings, --trace, --steps and --requests: the columns and bytes of published replays."""
    settings = {"num_blocks": 11, "max_num_seqs": 8, "max_num_batched_tokens": 64, "max_model_len": 200, "row_count": 2}
    (tmp_path / "s.json").write_text(json.dumps(settings), encoding="utf-8")
    (tmp_path / "t.csv").write_text("prompt,output\n30,4\n20,2\n10,1\n", encoding="utf-8")
    files = [str(tmp_path / name) for name in ("s.json", "t.csv", "steps.csv", "reqs.csv")]
    words = ["--settings", files[0], "--trace", files[1], "--steps", files[2], "--requests", files[3]]
    assert call(capsys, *words)[0] == 0
    steps, requests = ((tmp_path / name).read_bytes() for name in ("steps.csv", "reqs.csv"))
    assert steps.splitlines()[1] == b"0,0,2,2,0,2,50,0,2,0,0,4,2,0,50,0,0,0,0,4,50,6252000"
    assert requests == (
        b"seq,row,child,prompt_len,max_tokens,arrival_ns,arrival_step,first_sched_step,first_token_step,finish_step,"
        b"finish_ns,preemptions,hit_first,output_tokens\n"
        b"0,0,0,30,4,0,0,0,0,3,21356680,0,0,4\n1,1,0,20,2,0,0,0,0,1,11304080,0,0,2\n"
    )
    assert steps.startswith(",".join(StepRow._fields).encode() + b"\n")
    assert b"\r" not in steps + requests


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A trace, a link to it, settings, and two files that a failed replay must not touch."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("prompt,output\n30,4\n,2\n10,1\n", encoding="utf-8")
    (tmp_path / "link.csv").symlink_to("t.csv")
    (tmp_path / "q.json").write_text('{"num_blocks": 50}', encoding="utf-8")
    for name in ("steps.csv", "reqs.csv"):
        (tmp_path / name).write_text("old", encoding="utf-8")
    return lambda: {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--trace", "t.csv", "--steps", "t.csv"], "--trace and --steps are one file: t.csv"),
        (["--trace", "t.csv", "--requests", "link.csv"], "--trace and --requests are one file: link.csv"),
        (["--trace", "none.csv", "--steps", "./none.csv"], "--trace and --steps are one file"),
        (["--trace", "t.csv", "--steps", "new", "--requests", "../{here}/new"], "--steps and --requests are one file"),
        (["--trace", "t.csv", "--settings", "q.json", "--steps", "q.json"], "--settings and --steps are one file"),
        (["--trace", "t.csv", "--steps", "a.svg", "--plot", "a.svg"], "--steps and --plot are one file"),
        (["--trace", "none.csv"], "cannot read none.csv"),
        (["--trace", "t.csv", "--rows", "9:"], "no request to replay"),
        (["--trace", "t.csv", "--strict"], "row 1: "),
    ],
)
def test_a_refused_replay_leaves_every_file_as_it_was(files, tmp_path, capsys, words, says):
    before = files()
    words = [word.replace("{here}", tmp_path.name) for word in words]
    pool = [] if "--settings" in words else POOL
    series = [] if {"--steps", "--requests"} & set(words) else ["--steps", "steps.csv", "--requests", "reqs.csv"]
    code, _, err = call(capsys, *pool, *words, *series)
    assert code == 2
    assert says in err
    assert files() == before


def test_a_device_may_be_named_twice(capsys):
    words = ["--steps", "/dev/null", "--requests", "/dev/null"]
    assert call(capsys, *POOL, *LOAD, *words)[0] == 0


def test_text_names_what_is_modelled(capsys):
    code, out, _ = call(capsys, *POOL, *LOAD)
    assert code == 0
    lines = {line[2:17].strip(): line[17:] for line in out.splitlines()}
    assert "150 requests" in lines["load"]
    assert {"first token ~", "next token ~", "whole answer ~", "wait ~", "throughput ~", "clock ~"} <= set(lines)


def test_json_is_as_documented(capsys):
    words = ["--compare", "static", "--compare", "max_num_seqs=8", "--promise", "ttft_p99=9s,preemptions=0"]
    code, out, _ = call(capsys, *POOL, *LOAD, *words, "--format", "json")
    found = json.loads(out)
    SCHEMAS["simulate"].model_validate(found)
    assert code == 0
    assert [one["name"] for one in found["compared"]] == ["static", "max_num_seqs=8"]
    steps = found["series"]["steps"]
    assert steps["columns"] == list(StepRow._fields)
    assert len(steps["rows"]) == found["result"]["totals"]["steps"]
    assert [row[0] for row in found["series"]["requests"]["rows"]] == list(range(150))
    assert found["series"]["requests"]["columns"] == list(RequestRow._fields)
    assert found["promise"]["replicas"] == 1
    assert found["clock"]["basis"] == "convention"


def test_csv_is_the_steps(capsys):
    _, out, _ = call(capsys, *POOL, *LOAD, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0]) == list(StepRow._fields)
    assert sum(int(row["finished"]) for row in rows) == 150


def test_a_plan_and_its_chat(capsys):
    words = ["--synthetic", "prompt=1200 question=200 output=500 turns=10 requests=10", "--max-model-len", "16384"]
    code, out, _ = call(capsys, "meta-llama/Llama-3.1-8B", "--gpu", "h100-sxm", *words, "--compare", "no-prefix-cache")
    assert code == 0
    assert "8,000 tokens (1,000 MiB) at its end; computed: 43,500 without a cache, 3,000" in out
    assert "(modelled)" in out


def test_a_promise_that_nothing_keeps_is_a_no(capsys):
    code, out, _ = call(capsys, *POOL, *LOAD, "--promise", "ttft_p50=1ns")
    assert code == 1
    assert "refused: not even 64 engines" in out


def test_a_plan_that_would_not_start_is_a_no(capsys):
    code, out, err = call(capsys, "meta-llama/Llama-3.1-70B", "--gpu", "l4", *LOAD)
    assert (code, out) == (1, "")
    assert err.startswith("error: the engine would not start: nothing is left for the KV cache")
    assert "hint: more GPUs (--tensor-parallel-size), a larger card" in err


def test_problems_are_told_and_strict_refuses(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text("prompt,output\n30,4\n,4\n99999,4\n5000,1\n", encoding="utf-8")
    code, out, _ = call(capsys, "--num-gpu-blocks-override", "11", "--trace", str(path), "--max-model-len", "90000")
    assert code == 0
    assert "note: 1 row: no lengths (row 1: " in out
    assert "note: 1 row: a prompt that leaves no room" in out
    assert "note: 1 row: more blocks needed than the pool has" in out
    code, _, err = call(capsys, *POOL, "--trace", str(path), "--strict")
    assert code == 2
    assert err.startswith("error: row 1: ")


def test_progress_is_for_terminals(capsys, monkeypatch):
    assert call(capsys, *POOL, *LOAD)[2] == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    _, out, err = call(capsys, *POOL, *LOAD)
    assert "150 requests" in err
    assert "\x1b" not in out


def test_ctrl_c_prints_and_writes_what_is_known(files, capsys, monkeypatch):
    turn, turns = event._Replay.turn, []

    def interrupted(replay):
        turns.append(1)
        if len(turns) > 200:
            raise KeyboardInterrupt
        return turn(replay)

    monkeypatch.setattr(event._Replay, "turn", interrupted)
    code, out, _ = call(capsys, *POOL, *LOAD, "--steps", "steps.csv", "--requests", "reqs.csv")
    assert code == 130
    assert files()["steps.csv"].startswith(",".join(StepRow._fields) + "\n0,")
    assert files()["reqs.csv"].startswith(",".join(RequestRow._fields) + "\n0,")
    assert "note: interrupted" in out
    assert "running" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (LOAD, "what the pool is"),
        (POOL, "one load"),
        ([*POOL, *LOAD, "--trace", "x"], "one load"),
        ([*POOL, *LOAD, "--compare", "statik"], "statik"),
        ([*POOL, *LOAD, "--compare", "gpu=h100"], "MODEL"),
        ([*POOL, *LOAD, "--rows", "x"], "--rows"),
        ([*POOL, *LOAD, "--clock", "1,2"], "--clock"),
        ([*POOL, *LOAD, "--clock", "1,2,-3"], "--clock"),
        ([*POOL, *LOAD, "--plot", "x.pdf"], "x.pdf"),
        ([*POOL, *LOAD, "--steps", "/none/x.csv"], "cannot write --steps"),
        ([*POOL, *LOAD, "--replicas", "2", "--format", "csv"], "of one engine"),
        ([*POOL, "--trace", "x", "--chars-per-token", "0"], "--chars-per-token"),
        ([*POOL, "--trace", "none.csv"], "cannot read none.csv"),
        ([*POOL, "--trace", "x", "--time-unit", "h"], "--time-unit"),
        (["--settings", "none.json", *LOAD], "cannot read none.json"),
        (["meta-llama/Llama-3.1-8B", "--settings", "s.json", *LOAD], "a MODEL and --settings"),
        (["meta-llama/Llama-3.1-8B", *LOAD], "needs a card"),
        (["meta-llama/Llama-3.1-8B", "--gpu", "h100-sxm", *LOAD, "--bandwidth", "0 TB/s"], "'0 TB/s' is no bandwidth"),
    ],
)
def test_usage(capsys, words, says):
    code, _, err = call(capsys, *words)
    assert code == 2
    assert says in err
    assert "Traceback" not in err


@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_pictures(tmp_path, capsys, suffix):
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    paths = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for path in paths:
        assert call(capsys, *POOL, *LOAD, "--plot", str(path))[0] == 0
    first, second = (path.read_bytes() for path in paths)
    assert first == second  # the same replay gives the same file
    assert {"svg": b"<svg", "png": b"PNG", "html": b"<!doctype html>"}[suffix] in first
    if suffix == "html":
        assert b"<script" not in first
        assert b"http" not in first.replace(b"http://www.w3.org", b"").replace(b"http://purl.org", b"").replace(
            b"http://creativecommons.org", b""
        ).replace(b"https://matplotlib.org/", b"")


def test_without_matplotlib_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr("kvplan.render.simulate_plot.find_spec", lambda _: None)
    code, _, err = call(capsys, *POOL, *LOAD, "--plot", "x.svg")
    assert code == 2
    assert "hint: pip install matplotlib" in err
