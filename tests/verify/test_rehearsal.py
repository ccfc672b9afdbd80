"""Rehearsals end to end: a real verification in Triton's interpreter, on the kernels and a scaled-down pool."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch", reason="verify needs the extra: pip install '.[gpu]'")
pytest.importorskip("triton", reason="verify needs the extra: pip install '.[gpu]'")

from kvplan.cli import run
from kvplan.schemas import Verify


def rehearse(capsys, *words):
    code = run(["verify", *words, "--device", "cpu", "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    Verify.model_validate(found)
    return code, found


@pytest.mark.parametrize(
    ("words", "dtype"),
    [
        (["meta-llama/Llama-3.1-8B"], "bfloat16"),
        (["deepseek-ai/DeepSeek-V2-Lite"], "bfloat16"),
        (["mistralai/Mistral-7B-v0.1", "--kv-cache-dtype", "fp8_e5m2"], "bfloat16"),
        (["Qwen/Qwen3-Next-80B-A3B-Instruct", "--kv-cache-dtype", "fp8"], "bfloat16"),
        (["openai/gpt-oss-120b", "-tp", "8", "--dtype", "float16"], "float16"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_rehearsal(capsys, words, dtype):
    code, found = rehearse(capsys, *words)
    assert code == 0
    assert found["verdict"] == "rehearsed"
    assert found["rehearsal"] is True
    assert found["gpu"]["chip"] == "interpreter"
    assert found["numerics"]["dtype"] == dtype
    assert 0 < found["numerics"]["worst_row"] < found["numerics"]["bound"]
    assert all(line["ok"] for line in found["lines"])
    assert found["step"]["requests"] >= 1
    assert found["released"]["ended"] is True


def test_text_of_a_rehearsal_never_says_confirmed(capsys):
    assert run(["verify", "--device", "cpu", "--concurrency", "1", "--max-model-len", "20"]) == 0
    out = capsys.readouterr().out
    assert "confirmed" not in out
    assert out.splitlines()[0].startswith("Llama-3.1-8B") or "rehearsal" in out
    assert out.splitlines()[-1].strip().startswith("rehearsed: ")


def test_a_family_that_cannot_be_decoded_is_no_yes(capsys):
    code, found = rehearse(
        capsys, "deepseek-ai/DeepSeek-V3.2", "-tp", "8", "--max-model-len", "20", "--concurrency", "1"
    )
    assert code == 1
    assert found["verdict"] == "rehearsed"
    assert found["undecodable"] == ["Indexer caches"]
    assert "the kernels do not decode Indexer caches" in found["reason"]


def test_more_concurrency_than_blocks(capsys):
    assert run(["verify", "--device", "cpu", "--concurrency", "8", "--num-gpu-blocks-override", "20"]) == 1
    assert "8 requests of 100 tokens need 56 blocks, and the plan has 20" in capsys.readouterr().err


def test_a_gpu_that_is_not_there(capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert run(["verify"]) == 4
    assert "error: torch" in capsys.readouterr().err
