"""Keys of kvplan.lock and patterns of kvplan.yaml: the same from every folder and however a path is written."""

from __future__ import annotations

import io
import json
import sys

import pytest
from checks.checking import kvplan, pod

from kvplan.checks.places import covers, seen_from

POOL = "--kv-cache-memory-bytes=17179869184"
ALL = ["k8s/llama.yaml", "k8s/more/llama.yaml", "scripts/qwen.yaml"]


@pytest.fixture
def tree(folder):
    for name, flags, model in (
        ("k8s/llama.yaml", "--max-model-len=8192", "meta-llama/Llama-3.1-8B"),
        ("k8s/more/llama.yaml", "--max-model-len=4096", "meta-llama/Llama-3.1-8B"),
        ("scripts/qwen.yaml", "--max-model-len=8192", "Qwen/Qwen3-8B"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(pod(f"{POOL}, {flags}", model=model))
    return folder


def keys(folder) -> list[str]:
    return [key.partition("::")[0] for key in json.loads((folder / "kvplan.lock").read_text())["deployments"]]


def models(folder) -> dict[str, list[str]]:
    found = json.loads((folder / "kvplan.lock").read_text())["models"]
    return {name: entry["files"] for name, entry in found.items()}


def test_a_check_finds_its_lock_entries_from_everywhere(capsys, tree, monkeypatch):
    assert kvplan(capsys, "lock").out == "kvplan.lock: 2 models, 3 deployments\n"
    assert keys(tree) == ALL
    link = tree.parent / f"{tree.name}-link"
    link.symlink_to(tree)
    (tree / "aside").symlink_to("k8s")
    for where, command in (
        (".", "./k8s"), (".", "aside"), (".", f"{tree}/k8s"), (".", "k8s/../k8s//llama.yaml"), (".", f"{link}/k8s"),
        ("k8s", ""), ("k8s", "llama.yaml"), ("k8s", "../k8s"), ("k8s/more", "../llama.yaml"), ("scripts", "../k8s"),
        ("scripts", f"{tree}"),
    ):  # fmt: skip
        monkeypatch.chdir(tree / where)
        told = kvplan(capsys, f"check --locked {command}")
        assert told.code == 0, (where, command)
        assert "fits" in told.out
        assert "KVP012" not in told.out, (where, command)


def test_a_lock_of_some_paths_keeps_the_others(capsys, tree, monkeypatch):
    kvplan(capsys, "lock")
    before = (tree / "kvplan.lock").read_text()
    for where, command, said in (
        ("k8s", "lock", "../kvplan.lock: 2 models, 3 deployments, 1 of them kept, not in the current folder\n"),
        (".", "lock k8s", "kvplan.lock: 2 models, 3 deployments, 1 of them kept, not in k8s\n"),
        ("scripts", "lock ../k8s/llama.yaml", "2 of them kept, not in ../k8s/llama.yaml\n"),
    ):
        monkeypatch.chdir(tree / where)
        assert kvplan(capsys, command).out.endswith(said)
        assert (tree / "kvplan.lock").read_text() == before


def test_what_is_gone_below_the_paths_goes_with_its_model(capsys, tree):
    kvplan(capsys, "lock")
    (tree / "scripts" / "qwen.yaml").unlink()
    (tree / "k8s" / "llama.yaml").unlink()
    told = kvplan(capsys, "lock k8s")
    assert told.out == "kvplan.lock: 2 models, 2 deployments, 1 of them kept, not in k8s; 1 gone\n"
    assert models(tree) == {
        "Qwen/Qwen3-8B": ["scripts/qwen.yaml"], "meta-llama/Llama-3.1-8B": ["k8s/more/llama.yaml"],
    }  # fmt: skip
    assert kvplan(capsys, "lock scripts").out.endswith("1 of them kept, not in scripts; 1 gone\n")
    assert models(tree) == {"meta-llama/Llama-3.1-8B": ["k8s/more/llama.yaml"]}


def test_the_model_of_what_has_no_plan_stays(capsys, tree):
    (tree / "scripts" / "later.sh").write_text("vllm serve Qwen/Qwen3-14B -tp $TP\n")
    kvplan(capsys, "lock")
    assert models(tree)["Qwen/Qwen3-14B"] == ["scripts/later.sh"]
    kvplan(capsys, "lock k8s")
    assert kvplan(capsys, "check --locked").code == 0


def test_a_damaged_lock_is_written_anew_by_a_lock_of_everything_only(capsys, tree, monkeypatch):
    (tree / "kvplan.lock").write_text("<<<<<<< HEAD\n")
    assert kvplan(capsys, "lock k8s").code == 2
    assert (tree / "kvplan.lock").read_text() == "<<<<<<< HEAD\n"
    monkeypatch.chdir(tree / "k8s")
    assert kvplan(capsys, "lock ..").code == 0
    assert keys(tree) == ALL


def test_a_diff_compares_what_was_asked_for(capsys, tree, monkeypatch):
    kvplan(capsys, "lock")
    monkeypatch.chdir(tree / "k8s")
    assert "No plan changes (2 the same, 1 of other files not compared)." in kvplan(capsys, "diff ../kvplan.lock").out
    (tree / "base.json").write_text(kvplan(capsys, "check --format json").out)
    assert "No plan changes (2 the same)." in kvplan(capsys, "diff ../base.json").out
    (tree / "k8s" / "llama.yaml").unlink()
    assert "k8s/llama.yaml::Pod/llm#server (gone)" in kvplan(capsys, "diff ../kvplan.lock").out


def test_stdin_is_the_file_that_it_is_called(capsys, tree, monkeypatch):
    monkeypatch.chdir(tree / "k8s")
    content = (tree / "k8s" / "llama.yaml").read_bytes()
    for command, code in (
        ("lock - --stdin-filename llama.yaml", 0),
        ("check - --stdin-filename ../k8s/llama.yaml --locked --fail-on warning", 0),
        ("check - --fail-on warning", 1),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert kvplan(capsys, command).code == code
    assert keys(tree) == ["k8s/llama.yaml"]


@pytest.mark.parametrize("where", [".", "scripts", "k8s/more"])
@pytest.mark.parametrize("config", ["kvplan.yaml", ".github/kvplan.yaml"])
def test_patterns_are_those_of_the_settings_folder(capsys, tree, monkeypatch, where, config):
    (tree / config).parent.mkdir(exist_ok=True)
    (tree / config).write_text(
        "deployments: [{path: 'scripts/*', gpus: 7}]\n"
        "ignore: [{rule: KVP001, path: k8s/llama.yaml, reason: measured}]\n"
        "exclude: ['k8s/more/*']\n"
    )
    (tree / "k8s" / "llama.yaml").write_text(pod("-tp, '4', --max-model-len=8192"))
    monkeypatch.chdir(tree / where)
    told = json.loads(kvplan(capsys, f"check {tree} --format json").out)
    assert [entry["gpus_per_pod"] for entry in told["deployments"]] == [1, 7]
    assert told["findings"] == []


def test_a_link_to_the_settings_counts_where_it_stands(capsys, tree):
    (tree / "shared").mkdir()
    (tree / "shared" / "kvplan.yaml").write_text("deployments: [{path: 'scripts/*', gpus: 7}]\n")
    (tree / "kvplan.yaml").symlink_to("shared/kvplan.yaml")
    assert json.loads(kvplan(capsys, "check scripts --format json").out)["deployments"][0]["gpus_per_pod"] == 7
    kvplan(capsys, "lock")
    assert keys(tree) == ALL


def test_outside_of_a_repository_the_current_folder_is_the_root(capsys, tree, monkeypatch):
    (tree / ".git").rmdir()
    monkeypatch.chdir(tree / "k8s")
    assert kvplan(capsys, "lock").out == "kvplan.lock: 1 model, 2 deployments\n"
    assert keys(tree / "k8s") == ["llama.yaml", "more/llama.yaml"]
    assert kvplan(capsys, "check --locked ../k8s/more").code == 0
    kvplan(capsys, "lock ../scripts")
    assert keys(tree / "k8s") == ["../scripts/qwen.yaml", "llama.yaml", "more/llama.yaml"]


def test_reports_name_files_from_the_root_of_the_repository(capsys, tree, monkeypatch):
    (tree / "k8s" / "llama.yaml").write_text(pod("-tp, '4', --max-model-len=8192"))
    for where, path in (("scripts", "../k8s"), ("k8s", "."), ("k8s/more", f"{tree}/k8s/llama.yaml")):
        monkeypatch.chdir(tree / where)
        assert "file=k8s/llama.yaml," in kvplan(capsys, f"check {path} --format github").out


@pytest.mark.parametrize(
    ("paths", "file", "is_covered"),
    [
        (["."], "a/b.yaml", True), (["."], "../b.yaml", False), ([".."], "a.yaml", True), (["a"], "a/b", True),
        (["a"], "ab", False), (["a/b.yaml"], "a/b.yaml", True), (["../x"], "../x/y", True), (["."], "-", False),
        (["-"], "-", True), (["-"], "a", False), (["a"], ".", False), (["."], ".", True),
    ],
)  # fmt: skip
def test_what_a_path_covers(folder, paths, file, is_covered):
    assert covers(folder, paths, file) is is_covered


def test_a_link_that_leads_out_counts_where_it_stands(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "m.yaml").write_text("a: 1\n")
    (folder / "linked").symlink_to(outside)
    assert seen_from(folder, "linked/m.yaml") == "linked/m.yaml"
    assert seen_from(folder, str(outside / "m.yaml")).startswith("../")


def test_a_file_is_read_once_however_often_it_is_named(capsys, tree, monkeypatch):
    monkeypatch.chdir(tree / "scripts")
    told = kvplan(capsys, f"check ../k8s/llama.yaml {tree}/k8s ../k8s")
    assert "2 deployments in 2 files" in told.out
