"""The script of a GPU run, end to end on a CPU: every section runs, and what it would miss on a card is found."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="verify needs the extra: pip install '.[gpu]'")
pytest.importorskip("triton", reason="verify needs the extra: pip install '.[gpu]'")

SECTIONS = ("environment", "ceilings", "numerics", "tune", "sweep", "flashinfer", "sdpa", "product")


@pytest.fixture(scope="module")
def script(request):
    return request.config.rootpath / "benchmarks/gpu_run.py"


def test_dry_run(script, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-W", "ignore", script, "--dry", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "gpu_run.json").read_text())
    assert tuple(results) == SECTIONS
    assert not [result for result in results.values() if "error" in result or "skipped" in result]
    assert results["ceilings"]["wrong"] == 0
    assert results["numerics"]["beyond"] == {}
    assert results["numerics"]["writes_wrong"] == 0
    assert results["product"]["verdict"] == "rehearsed"


def test_deadline(script, tmp_path):
    command = [sys.executable, "-W", "ignore", script, "--dry", "--seconds", "5", "--out", tmp_path]
    subprocess.run(command, capture_output=True, timeout=300, check=True)
    results = json.loads((tmp_path / "gpu_run.json").read_text())
    assert results["product"]["skipped"].endswith("60 asked")


def test_bars(script):
    spec = importlib.util.spec_from_file_location("gpu_run", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    row = {"name": "a", "cache": "bfloat16", "page": 16, "latent": False, "request_heads": 256, "of_read": 0.91}
    good = {
        "sweep": {"rows": [row]}, "flashinfer": {"rows": [{"name": "b", "ours_over_theirs": 0.97}]},
        "numerics": {"beyond": {}}, "product": {"verdict": "confirmed"},
    }  # fmt: skip
    assert module.bars(good) == []
    bad = {
        "sweep": {"rows": [row | {"of_read": 0.89}, row | {"of_read": 0.5, "request_heads": 8}]},
        "flashinfer": {"rows": [{"name": "b", "ours_over_theirs": 1.04}]},
        "numerics": {"beyond": {"c": 0.1}}, "product": {"verdict": "not confirmed", "reason": "d"},
    }  # fmt: skip
    assert module.bars(bad) == [
        "missed: a reads at 89% of the ceiling, bar 90%", "missed: b takes 1.04 of FlashInfer's time",
        "missed: c is off by 1.0e-01", "missed: the product says not confirmed: d",
    ]  # fmt: skip
