"""The documents cannot rot: their commands are run, their output is compared, their lists are made from the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from module_map import module_map

from kvplan.cli import COMMANDS, run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


CONSOLE = [tuple(block.split("\n", 1)) for block in blocks("console")]


@pytest.mark.parametrize(("command", "expected"), CONSOLE, ids=[command[2:60] for command, _ in CONSOLE])
def test_what_the_readme_shows_is_what_is_printed(capsys, command, expected):
    assert run(shlex.split(command.removeprefix("$ kvplan "))) in (0, 1)
    assert capsys.readouterr().out == expected


def test_the_python_example_holds():
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {})  # our own words


def test_both_commands_are_there():
    first, second = blocks("sh")
    assert "-m venv" in first
    assert first.strip().endswith(CONSOLE[0][0].removeprefix("$ kvplan "))
    assert second.strip() == "scripts/test"
    assert (ROOT / "scripts/test").stat().st_mode & 0o111


def test_it_never_tells_to_install_another_package_of_that_name():
    for path in ROOT.glob("*.md"):
        assert "pip install kvplan" not in path.read_text(encoding="utf-8")


def test_every_command_is_documented():
    text = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"kvplan {name}" not in text] == []


def test_the_module_map_is_the_code():
    assert (ROOT / "MODULES.md").read_text(encoding="utf-8") == module_map(), "run scripts/module_map.py"
