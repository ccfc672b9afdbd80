"""Every row of the corpus against the product, where KVPLAN_CORPUS names the folder with data/ in it."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import pytest

import kvplan

CORPUS = Path(os.environ.get("KVPLAN_CORPUS", "/nonexistent")) / "data"
pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="KVPLAN_CORPUS names no corpus")
# A checkpoint whose hf_quant_config.json the corpus lacks: its KV dtype cannot be known from config.json
INCOMPLETE = {"nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"}
TP_REFUSAL = re.compile(
    "divisible|must divide|does not divide|divide num|modulo by zero|not aligned with the quantized"
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    root, found = tmp_path_factory.mktemp("configs"), {}
    for row in map(json.loads, (CORPUS / "configs/manifest.jsonl").open()):
        folder = root / row["file"].removesuffix(".json")
        folder.mkdir()
        (folder / "config.json").write_text((CORPUS / "configs" / row["file"]).read_text())
        side = CORPUS / "configs/hf_quant_config" / row["file"]
        if side.exists():
            (folder / "hf_quant_config.json").write_text(side.read_text())
        found[folder.name.replace("--", "/", 1)] = folder
        found.setdefault(row["model"], folder)
    return found


@pytest.mark.parametrize("name", ["golden", "golden_variants"])
def test_every_pool_is_the_engines(folders, name):
    rows, wrong = 0, []
    for row in map(json.loads, gzip.decompress((CORPUS / f"oracle/{name}.jsonl.gz").read_bytes()).splitlines()):
        if row["model"] not in folders or row["model"] in INCOMPLETE:
            continue
        rows += 1
        flags = {k: v for k, v in (row.get("extra") or {}).items() if k != "allow_deprecated_quantization"}
        plan = kvplan.plan(
            folders[row["model"]],
            gpu=row["gpu"],
            tensor_parallel_size=row["tp"],
            kv_cache_dtype=row["kv_cache_dtype"],
            kv_cache_memory_bytes=row["available_kv_bytes"],
            max_model_len=row["max_model_len"],
            **flags,
        )
        have = (plan.kv.num_blocks, plan.kv.block_size, plan.kv.tokens, plan.kv.max_concurrency)
        want = tuple(row[k] for k in ("num_blocks", "block_size", "kv_cache_size_tokens", "max_concurrency"))
        if (have != want or plan.verdict != "fits") if not row.get("error") else plan.verdict != "refused":
            wrong.append((row["model"], row["tp"], row["kv_cache_dtype"], row["max_model_len"], want, have))
    assert rows > 600
    assert wrong == []


def test_every_refused_tensor_parallel_size_is_refused(folders):
    wrong = []
    for row in map(json.loads, (CORPUS / "oracle/failures.jsonl").open()):
        if row["model"] not in folders or row["tp"] == 1 or not TP_REFUSAL.search(str(row.get("error"))):
            continue
        plan = kvplan.plan(
            folders[row["model"]], gpu="h100-sxm", tensor_parallel_size=row["tp"], kv_cache_memory_bytes="40 GiB"
        )
        if plan.verdict != "refused":
            wrong.append((row["model"], row["tp"], row["error"][:100]))
    assert wrong == []


def test_every_config_is_read_or_declined(folders):
    declined = []
    for model, folder in folders.items():
        try:
            kvplan.plan(folder, gpu="h100-sxm")
        except kvplan.UnknownArchitecture:
            declined.append(model)
        except kvplan.KvplanError as error:
            assert "config.json" in error.message, model  # noqa: PT017
    assert set(declined) <= INCOMPLETE
