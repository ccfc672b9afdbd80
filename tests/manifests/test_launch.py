"""Which engine a command line starts, whatever stands around it."""

from __future__ import annotations

import pytest
from manifests.reading import only, reading_of, values


@pytest.mark.parametrize(
    ("command", "engine", "model"),
    [
        ("vllm serve org/m", "vllm", "org/m"),
        ("vllm serve --model org/m", "vllm", "org/m"),
        ("/opt/venv/bin/vllm serve org/m", "vllm", "org/m"),
        ("exec vllm serve org/m", "vllm", "org/m"),
        ("CUDA_VISIBLE_DEVICES=0 nohup sudo -E vllm serve org/m > log 2>&1 &", "vllm", "org/m"),
        ("numactl --cpunodebind=0 vllm serve org/m", "vllm", "org/m"),
        ("uv run vllm serve org/m", "vllm", "org/m"),
        ("env A=1 python3 -m vllm.entrypoints.openai.api_server --model org/m", "vllm", "org/m"),
        ("python3.12 -m vllm.entrypoints.cli.main serve org/m", "vllm", "org/m"),
        ("python /app/vllm/entrypoints/openai/api_server.py --model org/m", "vllm", "org/m"),
        ("python -m sglang.launch_server --model-path org/m", "sglang", "org/m"),
        ("python -m sglang.launch_server --model org/m", "sglang", "org/m"),
        ("sglang serve --model-path org/m", "sglang", "org/m"),
        ("trtllm-serve org/m", "tensorrt-llm", "org/m"),
        ("mpirun -n 8 trtllm-serve serve org/m", "tensorrt-llm", "org/m"),
        ("python3 -m dynamo.vllm --model org/m", "vllm", "org/m"),
        ("python3 -m dynamo.sglang --model-path org/m", "sglang", "org/m"),
        ("python3 -m dynamo.trtllm --model-path org/m", "tensorrt-llm", "org/m"),
        ("python -m huggingfaceserver --model_id=org/m", "vllm", "org/m"),
        ("bash -c 'cd /x && vllm serve org/m'", "vllm", "org/m"),
        ('sh -lc "exec bash -c \'vllm serve org/m\'"', "vllm", "org/m"),
        ("bash -c 'vllm serve \"$0\" \"$@\"' org/m --port 1", "vllm", "org/m"),
        ("CMD='vllm serve org/m'; $CMD", "vllm", "org/m"),
        ('CMD=(vllm serve org/m); "${CMD[@]}"', "vllm", "org/m"),
        ("eval 'vllm serve org/m'", "vllm", "org/m"),
        ("ssh host 'vllm serve org/m'", "vllm", "org/m"),
        ("tmux new-session -d -s x 'vllm serve org/m'", "vllm", "org/m"),
        ("docker run --gpus 2 -e A=1 --rm -it -v a:b vllm/vllm-openai:v0.33.0 --model org/m", "vllm", "org/m"),
        ("docker run --gpus all lmsysorg/sglang python3 -m sglang.launch_server --model-path org/m", "sglang", "org/m"),
        ("podman run -e M=org/m --entrypoint bash image -c 'vllm serve $M'", "vllm", "org/m"),
        ("docker exec box vllm serve org/m", "vllm", "org/m"),
        ("if true; then vllm serve org/m; fi", "vllm", "org/m"),
        ("vllm serve hf://org/m:abc", "vllm", "org/m@abc"),
    ],
)  # fmt: skip
def test_an_engine_is_found(command, engine, model):
    found = only(command, "run.sh")
    assert (found.engine, found.model) == (engine, model)


@pytest.mark.parametrize(
    "command",
    [
        "echo vllm serve org/m", "pkill -f 'vllm serve'", "pip install vllm serve", "vllm bench serve --model org/m",
        "# vllm serve org/m", "python -m sglang_router.launch_router --vllm x", "trtllm-serve disaggregated -c x",
        "cat <<EOF\nvllm serve org/m\nEOF", "grep vllm serve.log", "docker build -t vllm/vllm-openai .",
    ],
)  # fmt: skip
def test_what_only_mentions_one_starts_none(command):
    assert reading_of(command, "run.sh").deployments == []


def test_a_script_may_start_several_and_the_same_twice_is_one():
    found = reading_of(
        "vllm serve a/a --port 1 &\nvllm serve b/b &\nif x; then vllm serve b/b; fi", "run.sh"
    ).deployments
    assert [(each.where, each.model) for each in found] == [("command[0]", "a/a"), ("command[1]", "b/b")]


@pytest.mark.parametrize(
    ("command", "gpus"),
    [
        ("docker run --gpus 2 vllm/vllm-openai --model a/b", 2),
        ("docker run --gpus '\"device=0,1,2\"' vllm/vllm-openai --model a/b", 3),
        ("docker run --gpus all vllm/vllm-openai --model a/b", None),
        ("CUDA_VISIBLE_DEVICES=0,1 vllm serve a/b", 2),
        ("export CUDA_VISIBLE_DEVICES=3; vllm serve a/b", 1),
        ("#SBATCH --gres=gpu:h100:8\nvllm serve a/b", 8),
        ("vllm serve a/b", None),
    ],
)
def test_gpus_of_a_command(command, gpus):
    assert only(command, "run.sh").topology.gpus == gpus


def test_slurm_nodes_and_card():
    found = only(
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:h100:8\nsrun vllm serve a/b", "job.sbatch"
    ).topology
    assert (found.nodes, found.gpus, found.gpu) == (2, 8, "h100")


def test_variables_come_from_the_file_then_from_set_and_from_nowhere_else(monkeypatch):
    monkeypatch.setenv("TP", "8")
    command = "vllm serve ${MODEL:-a/b} -tp $TP --max-model-len ${LEN}"
    found = only(command, "run.sh", LEN="4k")
    assert (found.model, values(found)) == ("a/b", {"tensor_parallel_size": "$TP", "max_model_len": 4000})
    assert found.unresolved == ("TP",)
    assert only(command, "run.sh", MODEL="c/d").model == "c/d"


def test_a_word_of_flags_that_nobody_sees_is_named_as_it_is_written_too():
    found = only('vllm serve a/b $EXTRA "$@"', "run.sh")
    assert found.hidden_flags
    assert found.unresolved == ("EXTRA", "$EXTRA", "@", "$@")


def test_a_dockerfile_starts_its_last_stage():
    text = """\
ARG TAG=v0.33.0
FROM python:3.12 AS build
CMD ["vllm", "serve", "not/this"]
FROM vllm/vllm-openai:${TAG} AS base
ENV MODEL=org/m LEN="32k"
RUN <<EOF
vllm serve nor/this
EOF
FROM base
# said
CMD ["--model", "${MODEL}", \\
     "--max-model-len", "${LEN}"]
"""
    found = only(text, "Dockerfile")
    assert (found.model, found.release, values(found)) == ("org/m", "0.33.0", {"max_model_len": 32_000})
    assert found.place_of("max_model_len").line == 12


@pytest.mark.parametrize(
    ("lines", "model"),
    [
        ('ENTRYPOINT ["vllm", "serve"]\nCMD ["org/m"]', "org/m"),
        ("ENTRYPOINT exec vllm serve org/m", "org/m"),
        ('ENTRYPOINT ["sh", "-c", "vllm serve $M"]', "org/m"),
        ('CMD ["python3", "-m", "sglang.launch_server", "--model-path", "org/m"]', "org/m"),
    ],
)
def test_dockerfile_forms(lines, model):
    assert only(f"FROM x\nENV M=org/m\n{lines}\n", "Dockerfile").model == model


def test_options_in_a_file_lie_under_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "opts.yaml").write_text("max-model-len: 4096\ntensor-parallel-size: 2\nmodel: org/m\n")
    (tmp_path / "run.sh").write_text("vllm serve --config opts.yaml -tp 4\n")
    from kvplan.manifests.read import read_paths

    found = read_paths(["run.sh"]).deployments[0]
    assert found.model == "org/m"
    assert (found.value("max_model_len"), found.value("tensor_parallel_size")) == (4096, 4)


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret.yaml", "a/../../secret.yaml"])
def test_no_file_elsewhere_is_read(tmp_path, monkeypatch, path):
    (tmp_path / "secret.yaml").write_text("max-model-len: 1\n")
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    (tmp_path / "in" / "run.sh").write_text(f"vllm serve a/b --config {path}\n")
    from kvplan.manifests.read import read_paths

    assert read_paths(["run.sh"]).deployments[0].value("max_model_len") is None
