"""The files of profiles/: plain enough for the fast reader, YAML for everybody else, a source for every fact."""

from __future__ import annotations

import math

import pytest
import yaml
from plain_yaml import plain_yaml

from kvplan.assets import PROFILES
from kvplan.profile import plain

FILES = sorted(path for path in PROFILES.rglob("*.yaml") if path.parent.name != "gpus")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_yaml_library_reads_the_same(path):
    text = path.read_text(encoding="utf-8")
    found = plain(text)
    assert found == yaml.safe_load(text)
    assert found["source"]


def test_what_is_written_reads_back():
    fields = {
        "name": "a: b",
        "word": "no",
        "float": 1e-06,
        "list": [1, None, "x, y", {"a": True}],
        "section": {"odd key #": "1.0", "empty": {}, "bare": "plain words"},
        "nothing": {},
    }
    text = plain_yaml(fields)
    assert plain(text) == yaml.safe_load(text) == fields


def test_numbers_without_a_spelling_in_json_stay_out():
    found = [v for path in FILES for v in plain(path.read_text(encoding="utf-8")).values() if isinstance(v, float)]
    assert not any(math.isinf(v) or math.isnan(v) for v in found)
