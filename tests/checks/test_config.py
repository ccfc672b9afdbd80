"""kvplan.yaml: where it is found, what it says, and how a mistake in it is told."""

from __future__ import annotations

import json

import pytest
from checks.checking import kvplan, pod
from pydantic import ValidationError

from kvplan.config import Config, find_config, load_config
from kvplan.errors import KvplanError
from kvplan.schemas import SCHEMAS


def only(capsys, command: str = "check --format json") -> dict:
    return json.loads(kvplan(capsys, command).out)["deployments"][0]


@pytest.mark.parametrize("name", ["kvplan.yaml", ".github/kvplan.yaml", "pyproject.toml"])
def test_it_is_found_upwards_to_the_root_of_the_repository(folder, monkeypatch, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text('[tool.kvplan]\ngpu = "h100"\n' if name.endswith("toml") else "gpu: h100\n")
    (folder / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(folder / "a" / "b")
    found = find_config(folder / "a" / "b")
    assert found == folder / name
    assert load_config(found).gpu == "h100"


def test_above_the_repository_and_without_one_nothing_is_found(tmp_path_factory):
    outer = tmp_path_factory.mktemp("outer")
    (outer / "kvplan.yaml").write_text("gpu: h100\n")
    for name, is_repository in (("repo", True), ("plain", False)):
        inner = outer / name
        inner.mkdir()
        if is_repository:
            (inner / ".git").mkdir()
        assert find_config(inner) is None


def test_a_project_without_the_table_says_nothing(folder):
    (folder / "pyproject.toml").write_text("[tool.other]\n")
    assert find_config(folder) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpus: 4", "kvplan.yaml: gpus: extra inputs are not permitted"),
        ("ignore: [{rule: KVP1, reason: x}]", "kvplan.yaml: ignore.0.rule"),
        ("ignore: [{rule: KVP001}]", "kvplan.yaml: ignore.0.reason: field required"),
        ("deployments: [{workload: {concurrency: 0}}]", "kvplan.yaml: deployments.0.workload.concurrency"),
        ("[1, 2]", "kvplan.yaml: the file"),
        ("gpu: h100\n'gpu': l4", "kvplan.yaml:2: the key 'gpu' is given twice"),
        ("gpu: h999", "kvplan.yaml: unknown GPU 'h999'"),
        ("deployments: [{engine: vlm@0.33}]", "kvplan.yaml: kvplan does not plan the engine 'vlm'"),
        ("deployments: [{engine: vllm@latest}]", "kvplan.yaml: 'latest' is no release of vLLM"),
        ("a: [", "kvplan.yaml:2: "),
        ("a: &a [*a]", "kvplan.yaml:1: "),
    ],
)
def test_a_mistake_is_told_with_its_place(capsys, folder, text, message):
    (folder / "kvplan.yaml").write_text(text)
    told = kvplan(capsys, "check")
    assert told.code == 2
    assert told.err.startswith(f"error: {message}")


def test_what_it_says_of_a_deployment(capsys, folder):
    (folder / "m.yaml").write_text(pod(model="pvc://models/llama").replace("nvidia.com/gpu.product", "zone"))
    assert only(capsys)["plan"] is None
    (folder / "kvplan.yaml").write_text(
        "gpu: l4\n"
        'models: {"pvc://models/llama": meta-llama/Llama-3.1-8B}\n'
        "deployments:\n"
        '  - {name: "Pod/*", gpu: h100}\n'
        '  - {path: "*.yaml", gpu: l40s, gpus: 4, engine: vllm@0.19}\n'
    )
    found = only(capsys)
    assert (found["gpu"], found["gpus_per_pod"], found["release"]) == ("h100-sxm", 4, "0.19")
    assert found["plan"]["model"]["id"] == "meta-llama/Llama-3.1-8B"
    assert found["plan"]["engine"]["version"].startswith("0.19")
    assert only(capsys, "check --format json --no-config")["plan"] is None


def test_the_model_may_be_named_by_its_served_name_or_be_a_folder_below(capsys, folder):
    (folder / "m.yaml").write_text(pod("--served-model-name=org/served, --max-model-len=8192", model="/models/x"))
    (folder / "kvplan.yaml").write_text("models: {org/served: meta-llama/Llama-3.1-8B}")
    assert only(capsys)["plan"]["model"]["id"] == "meta-llama/Llama-3.1-8B"
    (folder / "kvplan.yaml").write_text("deployments: [{model: ../outside}]")
    assert "outside of the folder" in only(capsys)["not_planned"]


def test_ignore_and_exclude(capsys, folder):
    (folder / "m.yaml").write_text(pod("-tp, '4', --max-model-len=8192"))
    (folder / "kvplan.yaml").write_text("ignore: [{rule: KVP001, path: 'm.*', reason: measured}]")
    assert kvplan(capsys, "check").code == 0
    (folder / "kvplan.yaml").write_text("ignore: [{rule: KVP001, path: 'other/*', reason: measured}]")
    assert kvplan(capsys, "check").code == 1
    (folder / "kvplan.yaml").write_text("exclude: ['m.*']")
    assert "no deployment" in kvplan(capsys, "check").err


@pytest.mark.parametrize(
    ("written", "tokens"), [("8192", 8192), ("8k", 8000), ("8K", 8192), ("null", None), ("many", "no count of tokens")]
)
def test_the_promised_length(folder, written, tokens):
    (folder / "kvplan.yaml").write_text(f"deployments: [{{workload: {{concurrency: 1, context_p95: {written}}}}}]")
    load = load_config(folder / "kvplan.yaml").setting("m.yaml", "x").workload
    assert load is not None
    if isinstance(tokens, str):
        with pytest.raises(KvplanError, match=tokens):
            load.tokens()
    else:
        assert load.tokens() == tokens


def test_the_schema_is_printed_and_closed(capsys):
    told = json.loads(kvplan(capsys, "schema config").out)
    assert told == SCHEMAS["config"].model_json_schema()
    assert told["additionalProperties"] is False
    with pytest.raises(ValidationError):
        Config.model_validate({"surprise": 1})


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("missing.toml", None, "cannot read missing.toml"),
        ("broken.toml", "[[[", "is no TOML"),
        ("deep.toml", "x = " + "[" * 5000, "is no TOML"),
        ("long.toml", "x = " + "1" * 5000, "is no TOML"),
        ("other.toml", "a = 1", "has no [tool.kvplan]"),
    ],
)
def test_a_config_that_was_asked_for_is_read_or_refused(folder, capsys, name, text, told):
    (folder / "a.sh").write_text("vllm serve meta-llama/Llama-3.1-8B\n")
    if text is not None:
        (folder / name).write_text(text)
    done = kvplan(capsys, f"check a.sh --config {name}")
    assert done.code == 2
    assert told in done.err


def test_a_project_file_of_others_is_passed_over_and_a_broken_one_of_ours_is_not(folder, capsys):
    (folder / "a.sh").write_text("vllm serve meta-llama/Llama-3.1-8B\n")
    (folder / "pyproject.toml").write_text("x = " + "[" * 5000)
    assert kvplan(capsys, "check a.sh").code == 0
    (folder / "pyproject.toml").write_text("[tool.kvplan]\ngpu = \n")
    assert kvplan(capsys, "check a.sh").code == 2


def test_a_link_that_leads_to_itself(folder, capsys):
    (folder / "loop").symlink_to("loop")
    assert kvplan(capsys, "check loop").code == 2
