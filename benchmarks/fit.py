"""What `kvplan fit` costs: every card of the catalogue x TP 1 to 16 x three KV dtypes, from a cold start.

    python benchmarks/fit.py [--runs 5]

Prints the CPU seconds of the command, the best of several, and its ratio to one `kvplan size` of the same model. Run it
with the interpreter of a venv into which kvplan was installed as a wheel, as benchmarks/cold_start.py says.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from kvplan.hardware import gpu_names

KVPLAN = str(Path(sys.executable).with_name("kvplan"))
MODELS = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-V3")
LOAD = [
    "--concurrency",
    "32",
    "--context",
    "8192",
    "--max-gpus",
    "16",
    "--kv-cache-dtype",
    "auto,fp8,int8_per_token_head",
]


def seconds(words: list[str]) -> tuple[float, float]:
    """Run a command and return its CPU time, user and system, and the time on the wall."""
    quiet = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    start = time.perf_counter()
    _, status, usage = os.wait4(os.posix_spawn(words[0], words, os.environ, file_actions=quiet), 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{words} failed")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs: int = parser.parse_args().runs
    print(f"{len(gpu_names())} cards x TP 1 to 16 x 3 KV dtypes, splits into TP x DP among them")
    for model in MODELS:
        size = min(seconds([KVPLAN, "size", model, "--gpu", "h100-sxm"]) for _ in range(runs))
        fit = min(seconds([KVPLAN, "fit", model, *LOAD]) for _ in range(runs))
        print(f"{model:<28} {fit[0]:5.2f} s CPU, {fit[1]:5.2f} s wall  {fit[0] / size[0]:5.1f}x kvplan size")


if __name__ == "__main__":
    main()
