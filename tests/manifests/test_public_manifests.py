"""The public manifests of the corpus, where KVPLAN_CORPUS names it: everything expected, nothing invented."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from kvplan.manifests.read import read_paths

CORPUS = Path(os.environ.get("KVPLAN_CORPUS", "/nowhere")) / "data" / "manifests"
ROWS = [json.loads(line) for line in (CORPUS / "manifest.jsonl").open()] if CORPUS.is_dir() else []

pytestmark = pytest.mark.skipif(not ROWS, reason="KVPLAN_CORPUS names no corpus")


def covers(have: object, want: object) -> bool:
    return isinstance(have, dict) and want.items() <= have.items() if isinstance(want, dict) else have == want


@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_what_is_expected_is_found(row):
    found = read_paths([str(CORPUS / row["file"])]).deployments
    for want in row["expect"]:
        if want.get("confidence") in ("skip", "unparsable"):
            continue
        same = [d for d in found if (d.engine, d.model) == (want["engine"], want["model"])]
        same = [d for d in same if want.get("role") in (None, d.role)]
        assert same, want
        have = {name: argument.value for name, argument in same[0].arguments.items()}
        assert {k: v for k, v in want["args"].items() if not covers(have.get(k), v)} == {}
        assert set(want.get("unresolved") or []) <= set(same[0].unresolved)
        topology = same[0].topology
        for key, value in (("gpus_per_pod", topology.gpus), ("nodes", topology.nodes), ("replicas", topology.replicas)):
            if isinstance(want.get(key), int):
                assert value == want[key], key


@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_nothing_is_invented(row):
    text = (CORPUS / row["file"]).read_text()
    folded = re.sub(r"[-_]", "", text).lower()
    for found in read_paths([str(CORPUS / row["file"])]).deployments:
        for argument in found.arguments.values():
            flag = re.sub(r"[-_]", "", argument.flag.lstrip("-").partition(".")[0]).lower()
            assert flag in folded or argument.flag == "-O", argument
            assert 1 <= argument.place.line <= text.count("\n") + 1
