"""Two gloo ranks under torchrun: one report, one exit code, the smallest pool decides, and no rank outlives another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="verify needs the extra: pip install '.[gpu]'")
pytest.importorskip("triton", reason="verify needs the extra: pip install '.[gpu]'")

from kvplan.errors import UsageError
from kvplan.schemas import Verify
from kvplan.verify import ranks

HERE = Path(__file__).parent


def torchrun(*words, timeout=240):
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )


def test_two_ranks_give_one_report():
    done = torchrun("-m", "kvplan", "verify", "-tp", "2", "--device", "cpu", "--format", "json")
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    Verify.model_validate(found)
    assert found["verdict"] == "rehearsed"
    assert [one["rank"] for one in found["ranks"]] == [0, 1]
    assert [one["verdict"] for one in found["ranks"]] == ["rehearsed"] * 2
    assert found["of_ranks"] == 2


def test_the_smallest_pool_decides(tmp_path):
    done = torchrun(HERE / "rank_driver.py", tmp_path, "fewer")
    assert done.returncode == 0, done.stderr[-2000:]
    assert [(tmp_path / f"blocks{rank}").read_text() for rank in (0, 1)] == ["8 8", "8 8"]


def test_a_rank_that_is_refused_stops_the_others(tmp_path):
    done = torchrun(HERE / "rank_driver.py", tmp_path, "refused")
    assert done.returncode == 1
    assert "rank 1: the engine would not start" in done.stderr
    # rank 0 hears of it, or torchrun ends it first
    told = ("rank 0: another rank's plan was refused", "rank 0: another rank is gone", "rank 0: interrupted")
    assert any(words in done.stderr for words in (*told, "(SIGTERM) received")), done.stderr


def test_a_rank_that_dies_ends_the_others(tmp_path):
    start = time.monotonic()
    done = torchrun(HERE / "rank_driver.py", tmp_path, "die")
    assert done.returncode == 1
    assert "the child was ended by SIGKILL at the step 'fill'" in done.stderr
    assert time.monotonic() - start < 120
    for rank in (0, 1):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / f"parent{rank}").read_text()), 0)


def test_ranks_and_sizes_must_agree():
    done = torchrun("-m", "kvplan", "verify", "-tp", "4", "--device", "cpu")
    assert done.returncode == 1  # torchrun's own code for any rank that failed
    assert "torchrun started 2 ranks, but TP x PP is 4" in done.stderr


@pytest.mark.parametrize(
    "environment",
    [{"WORLD_SIZE": "2"}, {"WORLD_SIZE": "2", "RANK": "2", "LOCAL_RANK": "0"},
     {"WORLD_SIZE": "x", "RANK": "0", "LOCAL_RANK": "0"}],
)  # fmt: skip
def test_an_environment_that_is_not_torchruns(monkeypatch, environment):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="WORLD_SIZE"):
        ranks.place()
