"""Packed experts and their neighbours on ranks, to the byte of what vLLM 0.33's own classes allocate."""

from __future__ import annotations

import json

import pytest

import kvplan
from kvplan.model.read import read_model
from kvplan.model.weights import Ranks, inventory, weigh
from kvplan.sources.checkpoint import Checkpoint

GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
ROUND = {
    "quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "data_type": "int",
    "packing_format": "auto_round:auto_gptq", "extra_config": {r".*\.mlp\.gate": {"bits": 16, "data_type": "fp"}},
}  # fmt: skip
SKIPS = {f"-:.*{name}.*": {} for name in ("attn", "shared_expert", "mtp", "visual", "mlp.gate")}
WEIGHTS = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}


def compressed(*ignored: str) -> dict:
    group = {"targets": ["Linear"], "weights": WEIGHTS, "input_activations": None}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": list(ignored)}


KIMI, OSS = "moonshotai/Kimi-Linear-48B-A3B-Instruct", "openai/gpt-oss-20b"
QWEN, LARGE, MIXED = "Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-235B-A22B", "Qwen/Qwen3.5-35B-A3B"
MEASURED = [
    (LARGE, GPTQ, 8, 15_890_346_464),  # 192 wide on a rank, in groups of 128
    (LARGE, {**AWQ, "modules_to_not_convert": None}, 8, 16_112_120_288),
    (MIXED, {**GPTQ, "dynamic": SKIPS}, 4, 5_767_762_808),  # b and a of the delta nets whole on every rank
    (KIMI, None, 8, 24_122_537_932),  # 128 wide, padded to 256
    (KIMI, compressed("lm_head", "re:.*self_attn.*", "re:.*gate$", "re:.*shared_experts.*"), 8, 7_180_836_844),
    (OSS, compressed("re:.*lm_head", "re:.*self_attn", "re:.*router"), 1, 13_476_321_968),  # attention is `attn`
]


def with_section(name: str, section: dict | None, **changes: object):
    config = {key: value for key, value in kvplan.load_model(name).config.items() if key != "quantization_config"}
    added = {} if section is None else {"quantization_config": section}
    return read_model(Checkpoint("test", "file", {**config, **added, **changes}))


def size(model, ranks: Ranks) -> int:
    line = weigh(model, ranks, dtype="bfloat16").line
    assert line.basis == "exact"
    return line.bytes


@pytest.mark.parametrize(("name", "section", "tp", "measured"), MEASURED, ids=lambda value: str(value)[:50])
def test_ranks_take_what_the_engine_allocates(name, section, tp, measured):
    assert size(with_section(name, section), Ranks(tp)) == measured


@pytest.mark.parametrize(
    ("section", "measured"), [(GPTQ, 4_296_651_520), (ROUND, 4_315_280_128)], ids=["gptq", "round"]
)
def test_qwen3_in_shares_that_are_no_whole_groups(section, measured):
    """The checkpoints of 40,960 positions, whose rope table is shorter than the built-in's."""
    assert size(with_section(QWEN, section, max_position_embeddings=40_960), Ranks(4)) == measured


def test_experts_that_are_whole_stay_as_they_are_stored():
    """Under expert parallelism no rank cuts a group, and Marlin's kernel takes GPTQ's own tensors."""
    model = with_section(QWEN, GPTQ)
    per_rank = 48 * 32 * (3 * 2048 * 768 // 2 + 3 * (768 * 2048 // 128) * 2 + 3 * (768 * 2048 // 128) // 2)
    biases = 48 * 32 * (2 * 768 + 2048) * 2
    assert weigh(model, Ranks(4, expert_parallel=True), dtype="bfloat16").roles["expert"] == per_rank + biases


def test_an_inventory_is_what_the_checkpoint_stores():
    names = {tensor.name.rpartition(".")[2] for tensor in inventory(with_section(QWEN, GPTQ))}
    assert {"qweight", "qzeros", "scales", "g_idx"} <= names


def test_awq_skips_a_merged_matrix_by_its_own_name():
    """`mlp.gate` is found in gate_up_proj, so that up_proj is plain too; experts are matched as one module."""
    model = with_section(KIMI, {**AWQ, "modules_to_not_convert": ["mlp.gate"]})
    plain = {tensor.name for tensor in inventory(model) if tensor.name.endswith("_proj.weight")}
    assert {"model.layers.{}.mlp.gate_proj.weight", "model.layers.{}.mlp.up_proj.weight"} <= plain
    assert "model.layers.{}.mlp.down_proj.weight" not in plain


@pytest.mark.parametrize(("release", "fits"), [("0.8.5", False), ("0.9.2", True), ("0.16.0", True), ("0.33.0", True)])
def test_releases_that_read_auto_round(release, fits, tmp_path):
    model = with_section("Qwen/Qwen3-0.6B", {**ROUND, "extra_config": None})
    (tmp_path / "config.json").write_text(json.dumps(dict(model.config)))
    found = kvplan.plan(str(tmp_path), gpu="h100-sxm", engine=f"vllm@{release}", max_model_len=4096)
    refused = any(reason.code == "quantization_unsupported" for reason in found.reasons)
    assert refused is not fits
