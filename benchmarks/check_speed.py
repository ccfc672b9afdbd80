"""What `kvplan check` costs, beside `python -c pass` and its own budgets: CPU and wall seconds, the best of a few.

    python benchmarks/check_speed.py [FOLDER] [--runs 3]

FOLDER (optional) is checked cold, from a lock made once, offline; 1,000 manifests are generated and checked in one
process. Budgets: 1.5 s and 10 s of wall time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KVPLAN = [sys.executable, "-m", "kvplan"]
MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-32B", "deepseek-ai/DeepSeek-V3", "google/gemma-3-27b-it")
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: llm-{number}}}
spec:
  template:
    spec:
      nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
      containers:
        - name: server
          image: vllm/vllm-openai:v0.33.0
          command: [sh, -c]
          args:
            - |
              export TP={tp}
              vllm serve {model} \\
                --tensor-parallel-size $TP \\
                --max-model-len {length}
          resources: {{limits: {{nvidia.com/gpu: {tp}}}}}
"""
COMPOSE = """\
services:
  llm-{number}:
    image: vllm/vllm-openai:v0.33.0
    command: --model ${{MODEL:-{model}}} --tensor-parallel-size {tp} --max-model-len {length}
"""
SCRIPT = "#!/bin/bash\nMODEL=${{1:-{model}}}\nvllm serve $MODEL -tp {tp} --max-model-len {length}\n"
SHAPES = ((".yaml", DEPLOYMENT), (".yaml", COMPOSE), (".sh", SCRIPT))


def generate(folder: Path, count: int) -> None:
    """Write manifests of three shapes, four models and several sizes."""
    for number in range(count):
        suffix, shape = SHAPES[number % len(SHAPES)]
        values = {"model": MODELS[number % len(MODELS)], "tp": 1 << number % 4, "length": 4096 * (1 + number % 7)}
        (folder / f"m{number:04}{suffix}").write_text(shape.format(number=number, **values))


def best(words: list[str], folder: Path, runs: int) -> tuple[float, float]:
    """Return CPU and wall seconds of a command in a folder, the best of some runs."""
    found = []
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    for _ in range(runs):
        start = time.perf_counter()
        with subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.DEVNULL) as child:
            _, _, usage = os.wait4(child.pid, 0)
        found.append((usage.ru_utime + usage.ru_stime, time.perf_counter() - start))
    return min(cpu for cpu, _ in found), min(wall for _, wall in found)


def told(name: str, measured: tuple[float, float], floor: float) -> None:
    """Print one line: seconds, and how many times an empty interpreter."""
    cpu, wall = measured
    print(f"{name:<46} {cpu:6.2f} s CPU  {wall:6.2f} s wall  {cpu / floor:6.1f} x python")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="manifests to check cold and locked")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        empty = best([sys.executable, "-c", "pass"], scratch, options.runs)
        told("python -c pass", empty, empty[0])
        thousand = scratch / "thousand"
        thousand.mkdir()
        generate(thousand, 1000)
        check = [*KVPLAN, "check", "--format", "json"]
        told("1,000 generated manifests", best(check, thousand, options.runs), empty[0])
        if options.folder is not None:
            copied = shutil.copytree(options.folder, scratch / "folder")
            subprocess.run([*KVPLAN, "lock"], cwd=copied, capture_output=True, check=False)
            locked = best([*check, "--locked"], copied, options.runs)
            told(f"{options.folder.name}, cold, offline, locked", locked, empty[0])


if __name__ == "__main__":
    main()
