"""`kvplan check` as a person or a CI job meets it: exit codes, switches, what is read and what is not."""

from __future__ import annotations

import io
import json
import sys

import pytest
from checks.checking import kvplan, pod

from kvplan.schemas import SCHEMAS

BAD = pod("--max-model-len=8192, -tp, '4'")
ADVICE = pod("-tp, '8', --max-model-len=8192", model="deepseek-ai/DeepSeek-V3", gpus=8).replace(
    "H100-80GB-HBM3", "H200"
)
UNKNOWN = pod(model="somebody/unheard-of")
CONFLICT = "a: 1\n<<<<<<< HEAD\n"


@pytest.fixture
def files(folder):
    for name, text in {"bad": BAD, "good": pod(), "advice": ADVICE, "unknown": UNKNOWN, "conflict": CONFLICT}.items():
        (folder / name).mkdir()
        (folder / name / "m.yaml").write_text(text)
    (folder / "empty").mkdir()
    (folder / "binary.yaml").write_bytes(b"\xff\xfe")
    (folder / "nul.yaml").write_bytes(b"a: 1\nb: \0")
    (folder / "tab.yaml").write_text("a:\n\tb: 1\n")
    (folder / "template.yaml").write_text("{{- if .x }}\nkind: Pod # vllm\n{{- end }}\n")
    return folder


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("check good", 0),
        ("check bad", 1),
        ("check bad --exit-zero", 0),
        ("check bad --fail-on never", 0),
        ("check advice", 0),
        ("check advice --fail-on warning", 0),
        ("check advice --fail-on note", 1),
        ("check unknown", 0),
        ("check unknown --strict", 3),
        ("check template.yaml", 0),
        ("check template.yaml --strict", 1),
        ("check conflict", 2),
        ("check conflict --exit-zero", 2),
        ("check bad conflict", 2),
        ("check empty", 0),
        ("check empty --require-inputs", 2),
        ("check binary.yaml", 2),
        ("check nul.yaml", 2),
        ("check tab.yaml", 2),
        ("check nothing.yaml", 2),
        ("check good --locked", 2),
        ("check good --gpu nonsense", 2),
        ("check good --set X", 2),
        ("check good --output html=x", 2),
        ("check good --output json=no/such/folder/x", 2),
        ("check good --config nothing.yaml", 2),
    ],
)
def test_exit_codes(capsys, command, code):
    assert kvplan(capsys, command).code == code


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("path", "place"),
    [("conflict", "conflict/m.yaml:2:1:"), ("nul.yaml", "nul.yaml:2:1:"), ("tab.yaml", "tab.yaml:2:1:")],
)
def test_what_cannot_be_read_is_said_with_file_and_line(capsys, path, place):
    assert place in kvplan(capsys, f"check {path}").out


@pytest.mark.usefixtures("files")
def test_a_walk_passes_binary_files_over_and_says_so(capsys):
    told = kvplan(capsys, "check . --format json")
    assert [error["file"] for error in json.loads(told.out)["errors"]] == ["conflict/m.yaml", "tab.yaml"]
    assert "binary.yaml" in told.err


@pytest.mark.usefixtures("files")
def test_no_deployment_is_said(capsys):
    assert "no deployment found in 0 files" in kvplan(capsys, "check empty").err


def test_the_text(capsys, folder):
    (folder / "m.yaml").write_text(pod("--max-model-len=8192, -tp, '4', --kv-cache-memory-bytes=1073741824"))
    told = kvplan(capsys, "check m.yaml")
    assert told.out == (
        "m.yaml:9: Pod/llm#server\n"
        "  meta-llama/Llama-3.1-8B, vLLM 0.33.0, 4 x H100 SXM 80 GB, but the deployment asks for 1 GPU\n"
        "  fits: 32,768 tokens, 4.00 requests of 8,192\n"
        "m.yaml:9:69: error: TP 4 needs 4 GPUs, but the deployment asks for 1 [KVP001 tp-exceeds-gpus]\n"
        "  fix: --tensor-parallel-size 1, or 4 GPUs\n"
        "\n"
        "1 deployment in 1 file: 1 error\n"
    )
    assert kvplan(capsys, "check -q m.yaml").out == "".join(told.out.splitlines(keepends=True)[3:5])
    assert "weights" in kvplan(capsys, "check -v m.yaml").out


@pytest.mark.parametrize(("tag", "planned"), [("v0.99.0", "0.33"), ("v0.6.3", "0.8")])
def test_a_release_that_is_not_known_is_said(capsys, folder, tag, planned):
    (folder / "m.yaml").write_text(pod().replace("v0.33.0", tag))
    said = f"vLLM (as of {planned}, {tag[1:]} is not known)"
    assert f"  meta-llama/Llama-3.1-8B, {said}, 1 x H100 SXM 80 GB\n" in kvplan(capsys, "check").out
    assert (
        f"- :information_source: `m.yaml:9` Pod/llm#server: {said}\n" in kvplan(capsys, "check --format markdown").out
    )


CARDLESS = pod().replace("nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3", "zone: a")


def test_what_was_planned_on_no_card_fails_where_all_must_be_planned(capsys, folder):
    (folder / "m.yaml").write_text(CARDLESS)
    told = kvplan(capsys, "check")
    assert told.code == 0
    assert told.out.endswith(
        "  planned without a card\n\n"
        "1 deployment in 1 file: 1 planned without a card\n"
        "name the card with --gpu NAME, or with gpu: in kvplan.yaml\n"
    )
    told = kvplan(capsys, "check --strict --quiet")
    assert told == (1, "", "--strict: m.yaml::Pod/llm#server is not fully planned: planned without a card\n")
    assert kvplan(capsys, "check --strict --gpu h100").code == 0
    assert kvplan(capsys, "check --strict --exit-zero").code == 0
    assert "name the card" in kvplan(capsys, "check --format markdown").out
    assert kvplan(capsys, "check --format junit").out.count("<skipped") == 3  # the rules that rest on figures


def test_a_pool_of_a_given_size_says_nothing_of_the_card(capsys, folder):
    (folder / "m.yaml").write_text(CARDLESS.replace("=8192", "=8192, --kv-cache-memory-bytes=2147483648"))
    told = kvplan(capsys, "check --strict")
    assert told.code == 1
    assert "  fits on a card with room for it: 16,384 tokens, 2.00 requests of 8,192\n" in told.out


def test_a_card_that_is_not_known_is_named(capsys, folder):
    (folder / "m.yaml").write_text(pod().replace("NVIDIA-H100-80GB-HBM3", "NVIDIA-H999"))
    told = kvplan(capsys, "check --strict --gpu h100")
    assert told.code == 1
    assert "  planned without a card (NVIDIA-H999 is none that kvplan plans)\n" in told.out
    assert told.out.endswith("name the card in an entry of deployments: in kvplan.yaml; kvplan gpus lists them\n")
    (folder / "kvplan.yaml").write_text("deployments: [{gpu: h100-smx}]\n")
    told = kvplan(capsys, "check")
    assert (told.code, told.err.partition("\n")[0]) == (2, "error: kvplan.yaml: unknown GPU 'h100-smx'")


def test_json_is_what_its_schema_says(capsys, folder):
    (folder / "m.yaml").write_text(BAD + "---\n" + UNKNOWN.replace("name: llm", "name: other"))
    told = json.loads(kvplan(capsys, "check --format json").out)
    SCHEMAS["check"].model_validate(told)
    first, second = told["deployments"]
    assert (first["args"], first["gpu"], first["gpus_per_pod"]) == (
        {"max_model_len": 8192, "tensor_parallel_size": 4}, "h100-sxm", 1,
    )  # fmt: skip
    assert first["plan"]["verdict"] == "fits"
    assert second["plan"] is None
    assert "somebody/unheard-of" in second["not_planned"]
    assert [(f["rule"], f["line"], f["deployment"]) for f in told["findings"]] == [("KVP001", 9, "Pod/llm#server")]


def test_a_bare_command_on_stdin(capsys, monkeypatch):
    words = b"vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 3\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(words)))
    told = kvplan(capsys, "check - --stdin-filename run.sh --gpu h100")
    assert told.code == 1
    assert "run.sh:1:36: error: 32 attention heads do not divide" in told.out


def test_an_engine_that_cannot_be_planned_gets_the_topology_rules(capsys, folder):
    (folder / "nim.yaml").write_text(
        "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMService\nmetadata: {name: n}\nspec:\n"
        "  image: {repository: nvcr.io/nim/a/b}\n  resources: {limits: {nvidia.com/gpu: 1}}\n"
        "  multiNode: {parallelism: {tensor: 8, pipeline: 1}}\n"
    )
    told = kvplan(capsys, "check nim.yaml")
    assert "not planned: engine" in told.out
    assert "[KVP001 tp-exceeds-gpus]" in told.out


def test_variables_of_the_process_count_only_with_env(capsys, folder, monkeypatch):
    monkeypatch.setenv("TP", "3")
    (folder / "run.sh").write_text("vllm serve meta-llama/Llama-3.1-8B -tp $TP\n")
    for switches, verdict in (
        ("", "not planned: TP is not resolved"), ("--env", "would not start"), ("--set TP=2", "fits:"),
    ):  # fmt: skip
        assert verdict in kvplan(capsys, f"check run.sh --gpu h100 {switches}").out


def test_a_path_of_a_manifest_is_never_opened_here(capsys, folder):
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{broken")
    for model in (f"{folder}/model", "./model"):
        (folder / "m.yaml").write_text(pod(model=model))
        assert "not planned: model" in kvplan(capsys, "check m.yaml").out
    (folder / "org").mkdir()
    (folder / "org" / "name").mkdir()
    (folder / "org" / "name" / "config.json").write_text("{broken")
    (folder / "m.yaml").write_text(pod(model="org/name"))
    assert "broken" not in kvplan(capsys, "check m.yaml").out


def test_annotations_come_by_themselves_under_github_actions(capsys, folder, monkeypatch):
    (folder / "m.yaml").write_text(BAD)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    first, *text, command = kvplan(capsys, "check").out.splitlines()
    assert command.startswith("::error file=m.yaml,line=9,col=69,title=KVP001 tp-exceeds-gpus::")
    token = first.removeprefix("::stop-commands::")  # what manifests say is no command until the token comes
    assert (len(token), text[-1]) == (32, f"::{token}::")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(
            "      args:", "      # kvplan: ignore[KVP001] one GPU, four ranks on purpose\n      args:"
        ),
        lambda text: text.replace("'4']", "'4'] # kvplan: ignore[KVP011, KVP001] why"),
        lambda text: text.replace("'4']", "'4'] # kvplan: ignore"),
        lambda text: text.replace("{name: llm}", "{name: llm, annotations: {kvplan.dev/ignore: KVP001}}"),
    ],
    ids=["above", "on the line", "all rules", "annotation"],
)
def test_a_rule_is_switched_off_in_the_manifest(capsys, folder, change):
    (folder / "m.yaml").write_text(change(BAD))
    assert kvplan(capsys, "check").code == 0


@pytest.mark.parametrize(
    "comment", ["# kvplan: ignore[KVP002] other rule", "# kvplan ignore[KVP001]", "# ignore KVP001"]
)
def test_other_comments_switch_nothing_off(capsys, folder, comment):
    (folder / "m.yaml").write_text(BAD.replace("'4']", f"'4'] {comment}"))
    assert kvplan(capsys, "check").code == 1


def test_explain_and_its_page(capsys):
    from pathlib import Path

    page = Path(__file__).parent.parent.parent / "docs" / "rules.md"
    assert kvplan(capsys, "explain --format markdown").out == page.read_text(encoding="utf-8")
    assert "KVP001  tp-exceeds-gpus" in kvplan(capsys, "explain").out
    assert "Bad: " in kvplan(capsys, "explain KVP001").out
    assert kvplan(capsys, "explain KVP999").code == 2
