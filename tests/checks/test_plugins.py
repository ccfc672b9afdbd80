"""Where the check plugs in: the steps of the GitHub action, the pre-commit hook, the GitLab job, the guide."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from checks.checking import kvplan, pod

ROOT = Path(__file__).parent.parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
BAD = pod("-tp, '4', --max-model-len=8192")


def shell_step(name: str, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the action as a runner does: inputs by the environment, files for outputs and summary."""
    defaults = {key: entry["default"] for key, entry in ACTION["inputs"].items()}
    values = {**defaults, **{key.replace("_", "-"): value for key, value in inputs.items()}}
    environment = {
        key: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: values[found[1]], text)
        for key, text in STEPS[name].get("env", {}).items()
    }
    # PYTHONPATH: these tests are about this checkout, whichever one is installed
    base = {key: os.environ[key] for key in ("PATH", "HOME", "HF_HUB_OFFLINE", "PYTHONPATH") if key in os.environ}
    runner = {
        "RUNNER_TEMP": str(folder / "temp"), "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(folder / "temp" / "summary"), "GITHUB_OUTPUT": str(folder / "temp" / "output"),
    }  # fmt: skip
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]]
    return subprocess.run(
        command, cwd=folder / "repo", env=base | runner | environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def runner(folder):
    """A checkout with one bad manifest, and kvplan where the first step puts it."""
    (folder / "temp" / "kvplan" / "bin").mkdir(parents=True)
    (folder / "repo" / ".git").mkdir(parents=True)
    (folder / "repo" / "my k8s").mkdir()
    (folder / "repo" / "my k8s" / "m.yaml").write_text(BAD)
    script = folder / "temp" / "kvplan" / "bin" / "kvplan"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kvplan "$@"\n')
    script.chmod(0o755)
    return folder


def test_the_action_fails_with_an_annotation_a_summary_and_a_sarif_file(runner):
    done = shell_step("Check", runner)
    assert done.returncode == 1, done.stderr
    assert "::error file=my k8s/m.yaml,line=9," in done.stdout
    assert (runner / "temp" / "summary").read_text().startswith("<!-- kvplan -->")
    written = (runner / "temp" / "output").read_text().strip().removeprefix("sarif=")
    assert json.loads(Path(written).read_text())["version"] == "2.1.0"


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({"paths": "my k8s\n"}, 1),
        ({"paths": "my k8s", "fail_on": "never"}, 0),
        ({"paths": "nothing here"}, 2),
        ({"locked": "true"}, 2),
        ({"paths": "$(touch pwned)"}, 2),
        ({"gpu": 'h200"; touch pwned; "'}, 2),
        ({"fail_on": "never", "strict": "true"}, 0),
    ],
)  # fmt: skip
def test_inputs_of_the_action_are_data(runner, inputs, code):
    assert shell_step("Check", runner, **inputs).returncode == code
    assert not (runner / "repo" / "pwned").exists()


def test_the_action_installs_its_own_checkout_and_passes_inputs_by_the_environment_only(runner):
    fake = runner / "temp" / "python"
    fake.write_text(
        "#!/bin/sh\n"
        'if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"\n'
        'else echo "$@" > "$RUNNER_TEMP/asked"; fi\n'
    )
    fake.chmod(0o755)
    assert shell_step("Install kvplan", runner, python=str(fake)).returncode == 0
    assert (runner / "temp" / "asked").read_text().split()[-1] == str(ROOT)
    assert not any("${{" in step.get("run", "") for step in STEPS.values())
    assert STEPS["Upload to code scanning"]["if"].startswith("${{ always() && ")


def test_the_hook_runs_the_check_on_the_files_that_it_is_given(capsys, folder):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert (hook["id"], hook["language"], hook["require_serial"]) == ("kvplan", "python", True)
    (folder / "m.yaml").write_text(BAD)
    (folder / "other.yaml").write_text("a: 1\n")
    assert kvplan(capsys, f"{hook['entry'].removeprefix('kvplan ')} other.yaml m.yaml").code == 1


@pytest.mark.skipif(
    not os.environ.get("KVPLAN_PRE_COMMIT"),
    reason="pre-commit installs the hook from an index: KVPLAN_PRE_COMMIT=1 asks for it",
)
def test_the_hook_through_pre_commit_from_a_clone(folder):
    def git(*words: str, where: Path) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=where, check=True, capture_output=True)

    source, repository = folder / "source", folder / "user"
    ignored = shutil.ignore_patterns(".git", "*.pyc", "__pycache__", ".*_cache", "shared", ".venv", "build", "dist")
    shutil.copytree(ROOT, source, ignore=ignored)
    repository.mkdir()
    for place in (source, repository):
        git("init", "-q", where=place)
    git("add", "-A", where=source)
    git("commit", "-qm", "x", where=source)
    (repository / "m.yaml").write_text(BAD)
    git("add", "-A", where=repository)
    command = [sys.executable, "-m", "pre_commit", "try-repo", str(source), "kvplan", "--all-files"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "KVP001 tp-exceeds-gpus" in done.stdout
    (repository / "m.yaml").write_text(pod())
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_gitlab_job_writes_both_reports(capsys, folder):
    job = yaml.safe_load((ROOT / "docs" / "gitlab-ci.yml").read_text(encoding="utf-8"))["kvplan"]
    (folder / "m.yaml").write_text(BAD)
    kvplan(capsys, "lock")
    command = job["script"][-1].removeprefix("kvplan ")
    assert kvplan(capsys, command).code == 1
    reports = job["artifacts"]["reports"]
    assert json.loads((folder / reports["codequality"]).read_text())[0]["check_name"] == "KVP001 tp-exceeds-gpus"
    assert (folder / reports["junit"]).read_text().startswith("<?xml")


def test_the_guide_holds(capsys, folder):
    guide = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    manifest, settings = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)[:2]
    command, expected = re.search(r"```console\n\$ kvplan (.*?)\n(.*?)```", guide, re.DOTALL).groups()
    (folder / "llama.yaml").write_text(manifest)
    told = kvplan(capsys, command)
    assert (told.code, told.out) == (1, expected)
    (folder / "llama.yaml").write_text(manifest.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 2"))
    assert kvplan(capsys, command).code == 0
    (folder / "kvplan.yaml").write_text(settings)
    assert kvplan(capsys, command).code in (0, 1)
