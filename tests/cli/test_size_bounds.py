"""`kvplan size --roofline`, `--bandwidth` and what `--explain` says of weights."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from model.weights.test_stored import LLAMA, write

from kvplan.schemas import Size

L8 = "meta-llama/Llama-3.1-8B"
GIVEN = ("--max-model-len", "8192", "--weights", "16 GB", "--bandwidth", "2 TB/s")


def size(*words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kvplan", "size", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_the_bound_in_text():
    told = size(L8, *GIVEN)
    assert "a bound" in told
    assert "at 2.00 TB/s, as given" in told
    assert " ".join(next(line for line in told.splitlines() if line.split()[:1] == ["1"]).split()) == (
        "1 17.07 GB 8.54 ms 117 117.1"
    )
    assert "32  50.36 GB  25.18 ms     1,271" in told


def test_the_bound_in_json_keeps_the_contract():
    answer = json.loads(size(L8, *GIVEN, "--format", "json"))
    Size.model_validate(answer)
    first = answer["roofline"]["decode"][0]
    assert first["weight_bytes"] == 16 * 10**9
    assert first["kv_bytes"] == 2**30
    assert "roofline" not in json.loads(size(L8, "--format", "json"))


def test_the_bound_in_markdown_is_fenced():
    told = size(L8, *GIVEN, "--format", "markdown").splitlines()
    assert told.count("```") == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((L8, "--roofline"), "needs a memory bandwidth"),
        ((L8, "--bandwidth", "2"), "is not a size with a unit"),
        ((L8, "--gpu", "h100-sxm", "--bandwidth", "0 TB/s"), "is no bandwidth"),
        ((L8, "--roofline", "--gpu", "h100", "--gpu", "h200"), "answers for one deployment"),
        ((L8, "--roofline", "--gpu", "h100", "--fit"), "answers for one deployment"),
        ((L8, "--roofline", "--gpu", "h100", "--engine", "vllm,sglang"), "answers for one deployment"),
    ],
)
def test_what_has_no_bound_is_refused(words, says):
    assert says in size(*words, code=2)


def test_weights_are_explained_by_role():
    told = size(L8, "--gpu", "h100-sxm", "--explain")
    assert "how the weights come about: 16.09 GB on one GPU (computed from the config)" in told
    assert "2.10 GB  embedding and output head, split by rows" in told
    assert "0.03 GB  computed by the engine: rope tables" in told
    assert "the config implies 16.06 GB of tensors in the checkpoint" in told


def test_what_the_files_hold_stands_beside_what_the_config_implies(tmp_path):
    write(tmp_path, LLAMA)
    told = size(str(tmp_path), "--gpu", "h100-sxm", "--explain")
    assert "its 2 files hold 0.00 GB" in told
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(b"\0" * 7)
    assert "is not a safetensors file" in size(str(tmp_path), "--gpu", "h100-sxm", "--explain", code=2)
    assert "fits" in size(str(tmp_path), "--gpu", "h100-sxm")


def test_given_weights_are_not_explained_away():
    told = size(L8, "--gpu", "h100-sxm", "--weights", "16 GB", "--explain")
    assert "16.00 GB on one GPU (--weights)" in told
    assert "split by outputs" not in told
