"""The inventory that is computed against the one that files' headers give; and estimates that rest on headers alone."""

from __future__ import annotations

import json

import pytest
from sources.test_headers import file_of, tensor

import kvplan
from kvplan.model.weights import Ranks, inventory, weigh
from kvplan.model.weights.estimate import stored_tensors
from kvplan.model.weights.tensors import MODEL, Role
from kvplan.sources.stored import INDEX, stored_in

SIZES = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1000, "torch_dtype": "bfloat16",
    "max_position_embeddings": 512,
}  # fmt: skip
LLAMA = {**SIZES, "architectures": ["LlamaForCausalLM"], "model_type": "llama"}
QWEN2 = {**SIZES, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "tie_word_embeddings": True}
QWEN3_MOE = {
    **SIZES, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 128,
}  # fmt: skip
UNKNOWN = {**SIZES, "architectures": ["OpenELMForCausalLM"], "model_type": "openelm"}


def layer(number: int, config: dict) -> dict[str, list[int]]:
    """Return the tensors of a layer as Hugging Face's classes name them, written out by hand."""
    at, hidden, keys = f"model.layers.{number}.", 256, 128
    found = {
        f"{at}self_attn.q_proj.weight": [256, hidden],
        f"{at}self_attn.k_proj.weight": [keys, hidden],
        f"{at}self_attn.v_proj.weight": [keys, hidden],
        f"{at}self_attn.o_proj.weight": [hidden, 256],
        f"{at}input_layernorm.weight": [hidden],
        f"{at}post_attention_layernorm.weight": [hidden],
    }
    if config["model_type"] == "qwen2":
        found |= {f"{at}self_attn.{name}_proj.bias": [rows] for name, rows in (("q", 256), ("k", keys), ("v", keys))}
    if config["model_type"] == "qwen3_moe":
        found |= {f"{at}self_attn.{name}_norm.weight": [64] for name in "qk"} | {f"{at}mlp.gate.weight": [4, hidden]}
        for expert in range(4):
            found |= forward(f"{at}mlp.experts.{expert}.", 128)
        return found
    return found | forward(f"{at}mlp.", 512)


def forward(at: str, width: int) -> dict[str, list[int]]:
    return {
        f"{at}gate_proj.weight": [width, 256],
        f"{at}up_proj.weight": [width, 256],
        f"{at}down_proj.weight": [256, width],
    }


def write(folder, config: dict) -> None:
    """Write a checkpoint in two shards, with headers but no data worth the name."""
    shapes = {"model.embed_tokens.weight": [1000, 256], "model.norm.weight": [256]}
    if not config.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = [1000, 256]
    for number in range(3):
        shapes |= layer(number, config)
    (folder / "config.json").write_text(json.dumps(config))
    names, weight_map = sorted(shapes), {}
    for half, file in enumerate(("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")):
        entries, offset = {}, 0
        for name in names[half::2]:
            size = 2
            for extent in shapes[name]:
                size *= extent
            entries[name] = tensor("BF16", shapes[name], offset, offset + size)
            weight_map[name], offset = file, offset + size
        (folder / file).write_bytes(file_of(entries))
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))


@pytest.mark.parametrize("config", [LLAMA, QWEN2, QWEN3_MOE], ids=lambda config: config["model_type"])
def test_the_computed_inventory_is_the_stored_one(config, tmp_path):
    write(tmp_path, config)
    computed = [t for t in inventory(kvplan.load_model(tmp_path)) if t.holder != "engine"]
    stored = list(stored_tensors(stored_in(tmp_path).tensors))
    for have in computed:
        assert have.dtype == MODEL
    roles = {Role.KV: Role.COLUMN}  # a name does not tell how many KV heads there are
    assert {(t.name, t.stored_shape, t.count) for t in computed} == {(t.name, t.shape, t.count) for t in stored}
    told = {t.name: t.role for t in stored if len(t.shape) > 1}
    assert told == {t.name: roles.get(t.role, t.role) for t in computed if len(t.shape) > 1}
    assert sum(t.stored_bytes("bfloat16") for t in computed) == stored_in(tmp_path).total_bytes


def test_an_architecture_without_a_rule_rests_on_its_files(tmp_path):
    write(tmp_path, LLAMA)
    exact = weigh(kvplan.load_model(tmp_path), Ranks(2), dtype="bfloat16").line.bytes
    (tmp_path / "config.json").write_text(json.dumps(UNKNOWN | OPENELM))
    model = kvplan.load_model(tmp_path)
    line = weigh(model, Ranks(2), dtype="bfloat16").line
    assert line.basis == "modelled"
    assert "by the headers of its files" in line.why
    assert line.low <= exact <= line.high
    assert line.bytes == pytest.approx(exact, rel=0.1)


OPENELM = {
    "num_transformer_layers": 3, "model_dim": 256, "num_query_heads": [4] * 3, "num_kv_heads": [2] * 3,
    "head_dim": 64, "max_context_length": 512,
}  # fmt: skip


def test_files_that_lie_are_refused_where_they_are_needed(tmp_path):
    write(tmp_path, UNKNOWN | OPENELM)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(kvplan.KvplanError, match="names files that are not there") as caught:
        kvplan.load_model(tmp_path)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("left_out", "why"), [((), "by models of its kind"), (("vocab_size",), "by its sizes alone")])
def test_without_files_the_config_gives_a_wide_interval(left_out, why, tmp_path):
    config = {name: value for name, value in (UNKNOWN | OPENELM).items() if name not in left_out}
    (tmp_path / "config.json").write_text(json.dumps(config))
    line = weigh(kvplan.load_model(tmp_path), Ranks(), dtype="bfloat16").line
    assert line.basis == "modelled"
    assert why in line.why
    assert line.high / line.low >= 2


def test_models_of_its_kind_are_close_to_what_a_rule_computes(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    exact = weigh(kvplan.load_model(tmp_path), Ranks(2), dtype="bfloat16").line.bytes
    (tmp_path / "config.json").write_text(json.dumps(UNKNOWN | OPENELM))
    assert weigh(kvplan.load_model(tmp_path), Ranks(2), dtype="bfloat16").line.bytes == pytest.approx(exact, rel=0.01)


def test_sizes_that_no_machine_holds_are_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_MOE | {"num_experts": 2**24, "hidden_size": 2**20}))
    with pytest.raises(kvplan.KvplanError, match="make weights of"):
        weigh(kvplan.load_model(tmp_path), Ranks(), dtype="bfloat16")
