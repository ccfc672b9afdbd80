"""A context beyond the model's own: refused, unless the server's environment allows it or its config is rewritten."""

from __future__ import annotations

import pytest

from kvplan.cli import run

SERVE = "vllm serve Qwen/Qwen3-32B --max-model-len 65536 -tp 4"
POD = """apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
    - name: server
      image: vllm/vllm-openai:v0.33.0
      env: [{name: VLLM_ALLOW_LONG_MAX_MODEL_LEN, value: "1"}]
      args: [--model=Qwen/Qwen3-32B, --max-model-len=65536, -tp=4]
      resources: {limits: {nvidia.com/gpu: 4}}
"""


@pytest.mark.parametrize(
    ("name", "text", "code", "said"),
    [
        ("a.sh", SERVE, 1, "KVP004"),
        ("a.sh", f"VLLM_ALLOW_LONG_MAX_MODEL_LEN=0 {SERVE}", 1, "KVP004"),
        ("a.sh", f"VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 {SERVE}", 0, "fits"),
        ("a.sh", f"export VLLM_ALLOW_LONG_MAX_MODEL_LEN=1\n{SERVE}", 0, "fits"),
        ("a.yaml", POD, 0, "fits"),
        ("a.sh", f"""{SERVE} --hf-overrides '{{"rope_scaling": {{"factor": 4.0}}}}'""", 0, "fits"),
    ],
)
def test_what_decides_the_longest_context(tmp_path, capsys, name, text, code, said):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert run(["check", str(tmp_path / name), "--gpu", "h100-sxm"]) == code
    assert said in capsys.readouterr().out
