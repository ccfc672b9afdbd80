"""What the tests of the check share: a run in a folder of its own, without any network."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from kvplan.cli import run


class Told(NamedTuple):
    code: int
    out: str
    err: str


POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: llm}}
spec:
  nodeSelector: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
  containers:
    - name: server
      image: vllm/vllm-openai:v0.33.0
      args: [--model={model}, {flags}]
      resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}
"""


def pod(flags: str = "--max-model-len=8192", *, model: str = "meta-llama/Llama-3.1-8B", gpus: int = 1) -> str:
    return POD.format(model=model, flags=flags, gpus=gpus)


def kvplan(capsys, command: str) -> Told:
    code = run(shlex.split(command))
    told = capsys.readouterr()
    return Told(code, told.out, told.err)


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(text, encoding="utf-8")
