"""The command's own part: flags, formats, exit codes, kvplan.yaml, and what it imports before there is a need."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_card import FakeFactory

from kvplan.cli import run
from kvplan.schemas import Verify
from kvplan.verify.progress import Bar

HERE = Path(__file__).parent


@pytest.fixture
def card(tmp_path, monkeypatch):
    """A card made of integers in the place of torch's; returns what the command asked for."""
    asked = {}

    def factory(device, place):
        asked.update(device=device, rank=place.rank)
        return FakeFactory(str(tmp_path))

    monkeypatch.setattr("kvplan.verify.run.torch_factory", factory)
    monkeypatch.setenv("KVPLAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return asked


def test_default_model_and_text(card, capsys):
    assert run(["verify"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("Llama-3.1-8B")
    assert out[-1].strip().startswith("confirmed: ")
    assert card == {"device": "cuda:0", "rank": 0}


@pytest.mark.usefixtures("card")
def test_plan_flags_reach_the_plan(capsys):
    flags = ["--gpu-util", "0.8", "--max-model-len=32k", "-tp", "2", "--kv-cache-dtype", "fp8", "--enforce-eager"]
    assert run(["verify", "meta-llama/Llama-3.1-8B", *flags, "--no-enable-prefix-caching", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    Verify.model_validate(found)
    args = found["engine"]["args"]
    assert (args["gpu_memory_utilization"], args["max_model_len"], args["tensor_parallel_size"]) == (0.8, 32_000, 2)
    assert (args["kv_cache_dtype"], args["enable_prefix_caching"], args["enforce_eager"]) == ("fp8", False, True)
    assert "cuda_graphs" not in {line["name"] for line in found["lines"]}
    assert found["of_ranks"] == 2
    assert len(found["ranks"]) == 1


@pytest.mark.usefixtures("card")
def test_kvplan_yaml_names_what_to_verify(capsys, tmp_path):
    (tmp_path / "kvplan.yaml").write_text(
        "verify: {model: mistralai/Mistral-7B-v0.1, args: {max_model_len: 4096, gpu_util: 0.5}}\n"
    )
    assert run(["verify", "--gpu-memory-utilization", "0.6", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"]["args"]["gpu_memory_utilization"] == 0.6
    assert run(["verify", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"]["id"] == "mistralai/Mistral-7B-v0.1"
    assert found["engine"]["args"]["gpu_memory_utilization"] == 0.5
    assert run(["verify", "meta-llama/Llama-3.1-8B", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"]["args"]["gpu_memory_utilization"] == 0.92


@pytest.mark.usefixtures("card")
def test_save_is_told_before_the_verdict(capsys, tmp_path):
    assert run(["verify", "--save"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-2].strip().startswith("saved for later plans")
    assert (tmp_path / "home/cards/h200-sxm.json").is_file()
    assert run(["size", "meta-llama/Llama-3.1-8B", "--gpu", "h200"]) == 0
    assert "measured on this machine by verify" in capsys.readouterr().out
    assert run(["size", "meta-llama/Llama-3.1-8B", "--gpu", "h200", "--no-local"]) == 0
    assert "measured on this machine" not in capsys.readouterr().out


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--device", "gpu"], 2, "error: --device 'gpu' is neither cuda:N nor cpu"),
        (["--engine", "sglang"], 2, "error: verify lays out the pool of vLLM, not of 'sglang'"),
        (["no/such/folder/at/all"], 2, "error: "),
        (["--tolerance", "2"], 2, "error: --tolerance 2 is no share"),
        (["--max-num-seqs", "many"], 2, "error: --max-num-seqs takes a whole number"),
        (["--nonsense"], 2, "error: "),
        (["--concurrency", "50"], 1, "error: 50 requests of 131,072 tokens need 409,600 blocks"),
        (["--max-model-len", "999999999"], 1, "error: the engine would not start"),
    ],
)
def test_one_line_and_the_right_code(capsys, monkeypatch, words, code, message):
    if words[0] == "--device":
        monkeypatch.undo()
    assert run(["verify", *words]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(message)
    assert captured.err.count("error:") == 1
    assert "Traceback" not in captured.err


def test_without_the_extra(capsys, monkeypatch):
    monkeypatch.setattr("kvplan.verify.factory.find_spec", lambda _name: None)
    assert run(["verify"]) == 4
    assert "hint: pip install '.[gpu]'" in capsys.readouterr().err


def test_the_parent_imports_no_torch():
    script = "import sys, kvplan.cli.verify, kvplan.verify.run; print({'torch', 'triton', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_python_api_needs_no_third_party_library(tmp_path):
    """A GPU machine without an index may lack pydantic, YAML, the hub library and typer: a built-in needs none."""
    script = (
        "import sys\n"
        "for name in ('pydantic', 'yaml', 'huggingface_hub', 'rich', 'typer'): sys.modules[name] = None\n"
        f"sys.path.insert(0, {str(HERE)!r})\n"
        "from fake_card import FakeFactory\n"
        "from kvplan.verify.run import verify\n"
        f"if __name__ == '__main__': print(verify(factory=FakeFactory({str(tmp_path)!r})).verdict)\n"
    )
    path = tmp_path / "bare.py"
    path.write_text(script)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.stdout == "confirmed\n", done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_child_and_says_how_the_card_was_left(tmp_path, number):
    """torchrun ends ranks by SIGTERM; the child, busy in a step that never ends, must not outlive its parent."""
    script = (
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "from fake_card import FakeFactory\n"
        "from kvplan.verify.run import verify\n"
        "if __name__ == '__main__':\n"
        "    show = lambda step, _: print(step, flush=True)\n"
        f"    verify(factory=FakeFactory({str(tmp_path)!r}, at='check', fault='hang'), progress=show)\n"
    )
    path = tmp_path / "parent.py"
    path.write_text(script)
    parent = subprocess.Popen(
        [sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while parent.stdout.readline() != "read back\n":
        assert parent.poll() is None, parent.stderr.read()
    child = int((tmp_path / "driver").read_text().split()[0])
    time.sleep(0.3)
    parent.send_signal(number)
    _, err = parent.communicate(timeout=30)
    assert "interrupted; the child has ended and the card's memory is back at its baseline" in err
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_bar_is_for_terminals(monkeypatch, capsys):
    with Bar() as bar:
        bar.show("fill", 0.5)
    assert capsys.readouterr().err == ""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr("kvplan.verify.progress._SOON", 0.0)
        with Bar() as bar:
            bar.show("fill", 0.5)
        shown = ""
        while not shown.endswith("K") or shown.count("K") < 2:
            shown += os.read(ours, 1000).decode()
    os.close(ours)
    assert f"fill         [{'#' * 15}{' ' * 15}]" in shown
    assert shown.endswith("\r\x1b[2K")
