"""docs/simulate.md: its commands run, its settings are all there are, its baselines too."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

from kvplan.cli import run
from kvplan.simulate.baselines import BASELINES
from kvplan.simulate.settings import Settings
from kvplan.simulate.synthetic import parse_load
from kvplan.simulate.trace.layout import ROLES

DOCS = (Path(__file__).parents[2] / "docs/simulate.md").read_text(encoding="utf-8")


def test_commands_run(capsys):
    commands = re.findall(r"^\$ kvplan (.*)$", DOCS, re.MULTILINE)
    assert commands
    for command in commands:
        assert run(shlex.split(command)) == 0
    capsys.readouterr()


def test_every_setting_is_named():
    named = {"groups": "kv_groups", "clock": "clock_ns"}
    assert all(f"`{named.get(entry.name, entry.name)}`" in DOCS for entry in fields(Settings))


def test_every_baseline_role_and_word_is_named():
    assert all(f"`{name}`" in DOCS for name in BASELINES)
    assert all(f"{role}=NAME" in DOCS for role in ROLES)
    words = "prompt=1 output=1 question=1 think=1 rate=1 prefix=1@0.5 prefixes=2 turns=2 requests=3"
    assert parse_load(words).prefixes == 2
    assert all(f"`{word.partition('=')[0]}" in DOCS for word in words.split())
