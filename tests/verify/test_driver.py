"""What nvidia-smi says, or does not: a tool of our own on PATH stands in for it."""

from __future__ import annotations

import os

import pytest

from kvplan.units import MIB
from kvplan.verify import driver
from kvplan.verify.device import Process


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Return a function that makes nvidia-smi a shell script; it notes its arguments in a file."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(script):
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n{script}\n')
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return tmp_path / "asked"

    return install


def test_memory_in_use(smi):
    asked = smi("echo 613")
    assert driver.used(1) == 613 * MIB
    assert asked.read_text() == "-i 1 --query-gpu=memory.used --format=csv,noheader,nounits\n"


def test_other_processes(smi):
    smi(f'echo "4711, 1024"; echo "{os.getpid()}, 5"; echo "4712, [N/A]"; echo "[Insufficient Permissions], 1"')
    assert driver.others(0) == (Process(4711, 1024 * MIB), Process(4712, None))


@pytest.mark.parametrize(
    "script", ["exit 9", "echo '[N/A]'", "echo ''", "echo 99999999999999999999", "printf '\\377\\376'", "kill -9 $$"]
)
def test_a_tool_that_does_not_say(smi, script):
    smi(script)
    assert driver.used(0) is None


def test_a_tool_that_hangs(smi, monkeypatch):
    smi("sleep 20")
    monkeypatch.setattr(driver, "PATIENCE", 0.2)
    assert driver.used(0) is None
    assert driver.others(0) == ()


def test_no_tool(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert driver.used(0) is None
    assert driver.others(0) == ()


@pytest.mark.parametrize(
    ("visible", "index", "card"),
    [("3,1", 0, "3"), ("3,1", 1, "1"), ("GPU-1a2b", 0, "GPU-1a2b"), ("MIG-GPU-1/1/0", 0, None), ("3", 1, None),
     ("", 0, None), ("--help", 0, None)],
)  # fmt: skip
def test_visible_devices(smi, monkeypatch, visible, index, card):
    """CUDA's numbers are those of CUDA_VISIBLE_DEVICES; of a MIG slice nvidia-smi says nothing."""
    asked = smi("echo 7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert driver.used(index) == (None if card is None else 7 * MIB)
    assert (asked.read_text().split()[1] if asked.exists() else None) == card
