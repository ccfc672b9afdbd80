"""Published sizes of checkpoints, in bytes, against the inventory that is computed from their configs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import kvplan
from kvplan.errors import InvalidConfig
from kvplan.model.read import read_model
from kvplan.model.weights import inventory
from kvplan.sources.checkpoint import Checkpoint
from kvplan.units import GB, GIB

CORPUS = Path(os.environ.get("KVPLAN_CORPUS", "/nonexistent")) / "data/configs"


def implied(model, dtype=None) -> int:
    return sum(t.stored_bytes(dtype or model.dtype) for t in inventory(model) if t.holder != "engine")


SIZES = [
    # id, total_size of its index (or the sum of its tensors), what is beside the inventory, and what that is
    ("tiiuae/falcon-180B-chat", 359_045_130_240, 65_024 * 14_848 * 2, "a tied head, stored all the same"),
    ("mistralai/Devstral-Small-2507", 47_144_806_400, 0, ""),
    ("alpindale/WizardLM-2-8x22B", 281_241_268_224, 0, ""),
    ("google/medgemma-27b-it", 54_864_813_280, 0, ""),
    ("google/gemma-2b", 5_012_344_832, 0, ""),
    ("tiiuae/falcon-7b", 14_434_379_520, 0, ""),
    ("LiquidAI/LFM2-1.2B", 2_340_681_216, 0, ""),
    ("openai/gpt-oss-20b", 13_761_264_768, 0, ""),
    ("meta-llama/Llama-3.2-3B-Instruct", 6_425_499_648, 0, ""),
    ("emotibot-inc/Zhuzhi-6B", 12_487_168_064, 32 * 2, "inverse frequencies of the rope"),
    ("meta-llama/Llama-2-13b-hf", 52_063_467_520, 26_031_728_640 + 40 * 64 * 4, "counted as float32, and frequencies"),
    ("meta-llama/Llama-2-7b-hf", 26_953_670_656, 13_476_831_232 + 32 * 64 * 4, "counted as float32, and frequencies"),
]


@pytest.mark.parametrize(("name", "total", "beside", "what"), SIZES, ids=lambda value: str(value)[:40])
def test_inventory_is_the_published_size(name, total, beside, what):
    model = kvplan.load_model(name)
    dtype = "bfloat16" if name == "openai/gpt-oss-20b" else model.dtype  # its config names none
    assert total - implied(model, dtype) == beside, what


# What differs in the corpus beside those: by id, the bytes that no rule computes, and why
NAMED = {
    "jj8127/mimo_kor": (421_580_800, "the layer that drafts tokens"),
    "IDLEOAK/openpangu-lightweight-methods": (34 * 64 * 4, "inverse frequencies of the rope"),
    "meta-llama/Llama-2-70b-chat-hf": (80 * 64 * 4, "inverse frequencies of the rope"),
}
BUILT_IN = {name for name, *_ in SIZES}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="KVPLAN_CORPUS names no corpus")
def test_the_corpus_of_published_sizes():
    configs = {row["model"]: row for row in map(json.loads, (CORPUS / "manifest.jsonl").open())}
    compared = 0
    for row in map(json.loads, (CORPUS / "weights.jsonl").open()):
        found = configs.get(row["model"])
        if found is None or row["model"] in BUILT_IN or row["total_size_bytes"] is None:
            continue
        model = read_model(Checkpoint(row["model"], "file", json.loads((CORPUS / found["file"]).read_text())))
        tensors = inventory_or_none(model)
        if tensors is not None:
            compared += 1
            assert row["total_size_bytes"] - implied(model) == NAMED.get(row["model"], (0, ""))[0], row["model"]
    assert compared >= 6


def inventory_or_none(model):
    try:
        return inventory(model)
    except InvalidConfig:  # a text model's config under its wrapper's name
        return None


@pytest.mark.parametrize(
    ("name", "gb", "gib"), [("meta-llama/Llama-3.1-8B", 16.06, 14.96), ("meta-llama/Llama-3.1-70B", 141.1, 131.4)]
)
def test_the_figures_that_people_know(name, gb, gib):
    size = implied(kvplan.load_model(name))
    assert size / GB == pytest.approx(gb, rel=0.002)
    assert size / GIB == pytest.approx(gib, rel=0.002)


def test_a_quarter_of_a_70b():
    plan = kvplan.plan("meta-llama/Llama-3.1-70B", tensor_parallel_size=4)
    assert plan.weights_per_rank / GB == pytest.approx(35.3, rel=0.01)
