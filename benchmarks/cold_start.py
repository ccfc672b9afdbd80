"""What a start costs, as ratios to `python -c pass` in one run: CPU seconds, the best of many, turn by turn.

    python benchmarks/cold_start.py [--runs 20]

Run it with the interpreter of a venv into which kvplan was installed as a wheel (`pip install .`): an editable install
that may not write byte code compiles every module at every start.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import kvplan

KVPLAN = str(Path(sys.executable).with_name("kvplan"))
LLAMA, HYBRID = "meta-llama/Llama-3.1-8B", "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16"


def cpu_seconds(words: list[str]) -> float:
    """Run a command and return the CPU time that it took, user and system."""
    quiet = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    _, status, usage = os.wait4(os.posix_spawn(words[0], words, os.environ, file_actions=quiet), 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{words} failed")
    return usage.ru_utime + usage.ru_stime


def warm(model: str, runs: int) -> float:
    """Return the seconds of a plan after the first, the best of many."""
    spent = []
    for _ in range(runs):
        start = time.perf_counter()
        kvplan.plan(model, gpu="h100-sxm")
        spent.append(time.perf_counter() - start)
    return min(spent[1:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    runs: int = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "config.json"
        local.write_text(json.dumps(dict(kvplan.sources.builtin.builtin(LLAMA).config)))  # type: ignore[union-attr]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "python -c 'import typer'": [sys.executable, "-c", "import typer"],
            "kvplan --help": [KVPLAN, "--help"],
            "kvplan size (built-in, one card)": [KVPLAN, "size", LLAMA, "--gpu", "h100"],
            "kvplan size (local file, one card)": [KVPLAN, "size", str(local), "--gpu", "h100"],
            "kvplan size (built-in, eight cards)": [KVPLAN, "size", LLAMA],
        }
        best = dict.fromkeys(commands, float("inf"))
        for _ in range(runs):
            for name, words in commands.items():
                best[name] = min(best[name], cpu_seconds(words))
    unit = best["python -c pass"]
    for name, spent in best.items():
        print(f"{name:<38} {spent * 1000:7.1f} ms  {spent / unit:5.1f}x")
    for name, model in (("Llama-3.1-8B", LLAMA), ("the largest hybrid", HYBRID)):
        print(f"kvplan.plan() warm, {name:<18} {warm(model, 10 * runs) * 1000:7.2f} ms")


if __name__ == "__main__":
    import kvplan.sources.builtin

    main()
