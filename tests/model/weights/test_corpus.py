"""Every row of the corpus' weights, where KVPLAN_CORPUS names the folder with data/ in it: none off by a thousandth."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kvplan.model.read import read_model
from kvplan.model.weights import Ranks, weigh
from kvplan.sources.checkpoint import Checkpoint

CORPUS = Path(os.environ.get("KVPLAN_CORPUS", "/nonexistent")) / "data"
# A checkpoint whose quantization file the corpus lacks
INCOMPLETE = {"nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"}


def read(path: Path):
    return json.loads(path.read_text()) if path.exists() else None


@pytest.mark.skipif(not CORPUS.is_dir(), reason="KVPLAN_CORPUS names no corpus")
def test_every_row_is_the_engines():
    models, wrong, rows = {}, [], 0
    for row in map(json.loads, (CORPUS / "configs/manifest.jsonl").open()):
        config, side = read(CORPUS / "configs" / row["file"]), read(CORPUS / "configs/hf_quant_config" / row["file"])
        checkpoint = Checkpoint(row["model"], "file", config, quant_config=side)
        models[row["file"].removesuffix(".json").replace("--", "/", 1)] = checkpoint
        models.setdefault(row["model"], checkpoint)
    for row in map(json.loads, (CORPUS / "oracle/weights.jsonl").open()):
        if row["model"] not in models or row["model"] in INCOMPLETE:
            continue
        rows += 1
        asked = (row.get("extra") or {}).get("quantization")
        line = weigh(read_model(models[row["model"]]), Ranks(row["tp"]), dtype=row["dtype"], asked=asked).line
        if line.basis != "exact" or abs(line.bytes / row["weight_bytes_per_rank"] - 1) > 0.001:
            wrong.append((row["model"], row["tp"], row["weight_bytes_per_rank"], line.bytes))
    assert rows > 900
    assert not wrong
