"""Ctrl-C while replays run in processes of their own: what is known comes back, and nobody says a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
SCRIPT = """
import sys, time
from kvplan.simulate.workers import spread

def run(seconds):
    try:
        time.sleep(seconds)
    except KeyboardInterrupt:
        return "cut short"
    return "done"

def careless(seconds):
    print("up", flush=True)
    time.sleep(seconds)
    return "done"

if __name__ == "__main__":
    tasks = [float(word) for word in sys.argv[2:]]
    try:
        print(spread({"run": run, "careless": careless}[sys.argv[1]], tasks, 2))
    except KeyboardInterrupt:
        print("nothing")
"""

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups here")


def interrupted(words: list[str], seconds: float, *, group: bool = True) -> tuple[int, str, str]:
    """Send SIGINT to a command, and to its workers as a terminal does; return its code and what it wrote."""
    with subprocess.Popen(
        [sys.executable, *words],
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        time.sleep(seconds)
        (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    return process.returncode, out, err


@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "0", "60"], "['done', 'cut short']"),  # the first worker waits for a task
        (["run", "60", "60", "60", "60"], "['cut short', 'cut short']"),  # those in the queue do not begin
        (["careless", "0", "60"], "['done']"),
        (["careless", "60", "60"], "nothing"),
    ],
)
def test_workers_end_quietly(tmp_path, words, told, group):
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    code, out, err = interrupted([str(tmp_path / "script.py"), *words], 1.5, group=group)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == told


@pytest.mark.parametrize("seconds", [0.6, 0.9, 1.2])
def test_a_command_ends_quietly(seconds):
    load = ["--synthetic", "prompt=exp(900) output=exp(300) rate=30 requests=60000", "--promise", "ttft_p99=9ms"]
    words = ["-m", "kvplan", "simulate", "--num-gpu-blocks-override", "900", "--workers", "2", *load]
    code, _, err = interrupted(words, seconds)
    assert "Traceback" not in err
    assert code in {130, -signal.SIGINT}
