"""The formats that other programs read: each held to its own rules, with a hostile manifest behind them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from checks.checking import kvplan, pod

SCHEMAS = Path(__file__).parent.parent / "schemas"
HOSTILE = "a%b:c,d <img>|`x`@y\\r"


@pytest.fixture
def files(folder):
    (folder / "k8s").mkdir()
    (folder / "k8s" / "m.yaml").write_text(
        pod("-tp, '4', --max-model-len=8192").replace("name: llm", f'name: "{HOSTILE}"')
        + "---\n"
        + pod("-tp, '3'", gpus=3)
        + "---\n"
        + pod(model="some/unknown").replace("name: llm", "name: unknown")
    )
    (folder / "k8s" / "conflict.yaml").write_text("<<<<<<< HEAD\n")
    return folder


@pytest.mark.usefixtures("files")
def test_sarif_is_valid_and_complete(capsys):
    log = json.loads(kvplan(capsys, "check --format sarif").out)
    schema = json.loads((SCHEMAS / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
    jsonschema.Draft4Validator(schema).validate(log)
    run = log["runs"][0]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [ids[result["ruleIndex"]] for result in run["results"]] == [result["ruleId"] for result in run["results"]]
    assert {result["ruleId"] for result in run["results"]} == {"KVP000", "KVP001", "KVP003"}
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "k8s/m.yaml"
    marks = [result["partialFingerprints"]["kvplan/v1"] for result in run["results"]]
    assert len(set(marks)) == len(marks)


@pytest.mark.usefixtures("files")
def test_a_fingerprint_stays_while_lines_move(capsys, folder):
    def marks() -> set[str]:
        return {entry["fingerprint"] for entry in json.loads(kvplan(capsys, "check k8s/m.yaml --format gitlab").out)}

    before = marks()
    path = folder / "k8s" / "m.yaml"
    path.write_text("# a line more\n" + path.read_text())
    assert marks() == before


@pytest.mark.usefixtures("files")
def test_gitlab_code_quality(capsys):
    entries = json.loads(kvplan(capsys, "check --format gitlab").out)
    assert {entry["severity"] for entry in entries} == {"critical", "blocker"}
    for entry in entries:
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert entry["location"]["lines"]["begin"] >= 1
        assert not entry["location"]["path"].startswith(("/", "./"))


@pytest.mark.usefixtures("files")
def test_junit_has_a_case_for_each_deployment_and_rule(capsys):
    root = ET.fromstring(kvplan(capsys, "check --format junit").out)
    suites = root.findall("testsuite")
    assert [suite.get("tests") for suite in suites] == ["13", "13", "13", "1"]
    assert [suite.get("failures") for suite in suites] == ["1", "1", "0", "0"]
    assert [suite.get("skipped") for suite in suites][:3] == ["0", "0", "10"]
    failure = suites[0].find("testcase/failure")
    assert failure is not None
    assert "weights" in (failure.text or "")
    assert suites[3].find("testcase/error") is not None


def test_junit_names_the_line_of_the_finding(capsys, folder):
    split = (
        pod("-tp, '4', --max-model-len=8192").replace("args: [", "args: [\n        ").replace("-tp", "\n        -tp")
    )
    (folder / "m.yaml").write_text(split)
    place = json.loads(kvplan(capsys, "check --format json").out)
    tests = ET.fromstring(kvplan(capsys, "check --format junit").out).findall("testsuite/testcase")
    lines = {test.get("name"): test.get("line") for test in tests}
    begins, points = place["deployments"][0]["line"], place["findings"][0]["line"]
    assert begins < points
    assert lines["KVP001 tp-exceeds-gpus"] == str(points)
    assert lines["KVP002 does-not-start"] == str(begins)


@pytest.mark.usefixtures("files")
def test_github_commands_are_one_line_each_and_escaped(capsys):
    lines = kvplan(capsys, "check --format github").out.splitlines()
    assert lines[0] == (
        "::error file=k8s/conflict.yaml,line=1,col=1,title=kvplan::a conflict marker of git: the merge is not finished"
    )
    assert all(line.startswith("::error file=k8s/m.yaml,line=") for line in lines[1:])
    assert "%0Afix: --tensor-parallel-size 1, or 4 GPUs" in lines[1]


def test_a_path_with_odd_characters_is_escaped(capsys, folder):
    (folder / "a,b%:.yaml").write_text(pod("-tp, '4', --max-model-len=8192"))
    assert "file=a%2Cb%25%3A.yaml," in kvplan(capsys, "check --format github").out
    log = json.loads(kvplan(capsys, "check --format sarif").out)
    location = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "a%2Cb%25%3A.yaml"


def test_paths_lead_from_the_root_of_the_repository(capsys, files, monkeypatch):
    monkeypatch.chdir(files / "k8s")
    assert "file=k8s/m.yaml," in kvplan(capsys, "check m.yaml --format github").out
    assert "m.yaml:9:" in kvplan(capsys, "check m.yaml").out


@pytest.mark.usefixtures("files")
def test_markdown_holds_the_marker_the_table_and_no_html_of_a_manifest(capsys):
    lines = kvplan(capsys, "check --format markdown").out.splitlines()
    assert lines[0] == "<!-- kvplan -->"
    assert sum(line.startswith("| k8s/m.yaml: ") for line in lines) == 3
    text = "\n".join(lines)
    assert "<img>" not in text
    assert "@y" not in text
    assert "<details>" in text
    rows = [line for line in lines if line.startswith("|")][:5]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1


@pytest.mark.usefixtures("files")
def test_several_outputs_in_one_run(capsys, folder):
    told = kvplan(capsys, "check --output sarif=a.sarif --output junit=b.xml --output json=c.json")
    assert told.out.endswith("cannot be read\n")
    assert json.loads((folder / "a.sarif").read_text())["version"] == "2.1.0"
    assert ET.fromstring((folder / "b.xml").read_text()).tag == "testsuites"
    assert json.loads((folder / "c.json").read_text())["schema"] == 1
