"""The checkpoints that ship: every file is whole, found by each of its names, and says what the real config says."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from kvplan.sources import load
from kvplan.sources.builtin import MODELS, builtin, builtin_ids, known_names, listings

FILES = sorted(MODELS.glob("*.yaml"))
KEYS = ["id", "aliases", "same_geometry", "revision", "source", "weight_bytes", "config"]

# Fields of the published configs: layers, key-value heads (or what decides the cache), hidden size, vocabulary.
ESSENTIAL = [
    ("meta-llama/Llama-3.1-8B", {"num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256}),
    ("meta-llama/Llama-3.1-70B", {"num_hidden_layers": 80, "num_key_value_heads": 8, "hidden_size": 8192}),
    ("openai/gpt-oss-120b", {"num_hidden_layers": 36, "sliding_window": 128, "head_dim": 64}),
    ("openai/gpt-oss-20b", {"num_hidden_layers": 24, "num_local_experts": 32}),
    ("deepseek-ai/DeepSeek-V3", {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_hidden_layers": 61}),
    ("deepseek-ai/DeepSeek-V3.2", {"kv_lora_rank": 512, "index_head_dim": 128}),
    ("deepseek-ai/DeepSeek-V4-Flash", {"model_type": "deepseek_v4"}),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", {"full_attention_interval": 4, "head_dim": 256, "num_key_value_heads": 2}),
    ("ai21labs/AI21-Jamba-1.5-Mini", {"attn_layer_period": 8, "mamba_d_state": 16}),
    ("mistralai/Mistral-7B-v0.1", {"sliding_window": 4096, "num_key_value_heads": 8}),
    ("Qwen/Qwen2.5-VL-7B-Instruct", {"num_hidden_layers": 28, "num_key_value_heads": 4}),
    ("tiiuae/falcon-7b", {"architectures": ["RWForCausalLM"], "n_layer": 32, "n_head": 71, "multi_query": True}),
    ("mistralai/Mamba-Codestral-7B-v0.1", {"num_hidden_layers": 64}),
]
NESTED = [
    ("google/gemma-3-27b-it", {"num_hidden_layers": 62, "sliding_window": 1024, "num_key_value_heads": 16}),
    ("google/gemma-3-4b-it", {"num_hidden_layers": 34, "sliding_window": 1024}),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", {"attention_chunk_size": 8192, "num_hidden_layers": 48}),
    ("moonshotai/Kimi-K2.5", {"kv_lora_rank": 512}),
]
SERVED = """
    nvidia/Llama-3_3-Nemotron-Super-49B-v1 MiniMaxAI/MiniMax-M2.5 zai-org/GLM-4.5 openai/whisper-base LiquidAI/LFM2-1.2B
    microsoft/phi-4 allenai/OLMo-2-1124-7B-Instruct ibm-granite/granite-3.3-8b-instruct mistralai/Mixtral-8x7B-v0.1
    Qwen/Qwen2.5-7B-Instruct Qwen/Qwen3-8B Qwen/Qwen3.5-27B nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16
""".split()  # noqa: SIM905  # reads as the list that it is


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_is_whole(path):
    text = path.read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    assert list(document) in (KEYS, [*KEYS, "hf_quant_config"])
    assert path.stem == document["id"].replace("/", "--")
    assert document["source"]
    assert document["weight_bytes"] is None or (
        document["weight_bytes"]["value"] > 0 and document["weight_bytes"]["source"]
    )
    assert document["config"]["architectures"]
    assert isinstance(document["config"]["model_type"], str)
    assert all(isinstance(key, str) for key in keys_of(document))
    assert len(text.encode()) < 40_000
    found = builtin(document["id"])
    assert found is not None
    assert (found.id, found.source, found.config) == (document["id"], "built-in", document["config"])
    assert found.quant_config == document.get("hf_quant_config")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_scan_of_a_head_says_what_a_parser_says(path):
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    (listing,) = [entry for entry in listings() if entry.id == document["id"]]
    assert (list(listing.aliases), list(listing.same_geometry)) == (document["aliases"], document["same_geometry"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_quantized_checkpoint_carries_its_scheme(path):
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    second = document.get("hf_quant_config")
    # Some public copies of ModelOpt's file are cut to the algorithm; with those, weights cannot be told.
    assert second is None or {"quant_algo", "exclude_modules"} <= set(second["quantization"])
    quantized = second is not None or "quantization_config" in document["config"]
    assert quantized or not re.search(r"FP8|NVFP4|AWQ|GPTQ|Int4", document["id"])


def test_no_name_is_claimed_twice():
    assert not [name for name, count in Counter(map(str.casefold, known_names())).items() if count > 1]


def test_there_are_enough_of_them_and_they_are_listed():
    assert len(builtin_ids()) == len(FILES) >= 55
    assert builtin_ids() == sorted(builtin_ids(), key=str.casefold)
    assert not set(SERVED) - set(builtin_ids())


@pytest.mark.parametrize("name", known_names())
def test_every_name_is_found_in_any_case(name):
    found = builtin(name)
    assert found is not None
    for other in (name.lower(), name.upper()):
        again = builtin(other)
        assert again is not None
        assert (again.id, again.config) == (found.id, found.config)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("meta-llama/Meta-Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("META-LLAMA/meta-llama-3.1-70b", "meta-llama/Llama-3.1-70B"),
        ("gpt2-medium", "openai-community/gpt2-medium"),
        ("THUDM/glm-4-9b", "zai-org/glm-4-9b"),
        ("meta-llama/llama-3.3-70b-instruct", "meta-llama/Llama-3.3-70B-Instruct"),
    ],
)
def test_former_ids_and_equal_shapes(asked, answered):
    found = load(asked)
    assert (found.id, found.source) == (answered, "built-in")


@pytest.mark.parametrize("name", ["", "nope", "a/b", "../models/x", "meta-llama--Llama-3.1-8B", "x" * 5000, "a/\0"])
def test_what_is_no_built_in_is_none(name):
    assert builtin(name) is None


@pytest.mark.parametrize(("model", "fields"), ESSENTIAL)
def test_essential_fields(model, fields):
    config = load(model).config
    assert {key: config[key] for key in fields} == fields


@pytest.mark.parametrize(("model", "fields"), NESTED)
def test_essential_fields_of_the_language_model_within(model, fields):
    config = load(model).config["text_config"]
    assert {key: config[key] for key in fields} == fields


def test_numbers_keep_their_types():
    config = load("meta-llama/Llama-3.1-8B").config
    assert (config["rms_norm_eps"], type(config["rms_norm_eps"])) == (1e-05, float)
    assert (config["hidden_size"], type(config["hidden_size"])) == (4096, int)
    assert config["tie_word_embeddings"] is False


def corpus() -> Path | None:
    root = Path(os.environ.get("KVPLAN_CORPUS", "/nowhere"))
    found = (
        folder for folder in (root, root / "configs", root / "data/configs") if (folder / "manifest.jsonl").is_file()
    )
    return next(found, None)


PATCHED = {  # their `source` says how they differ from any one file
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "google/gemma-2-27b-it",
    "databricks/dbrx-base",
    "tiiuae/Falcon-H1-0.5B-Base",
}


@pytest.mark.skipif(corpus() is None, reason="KVPLAN_CORPUS names no folder of public configs")
@pytest.mark.parametrize("model", sorted(set(builtin_ids()) - PATCHED))
def test_a_built_in_is_the_public_config_without_its_noise(model, add_model):
    folder = corpus()
    assert folder is not None
    (listing,) = [entry for entry in listings() if entry.id == model]
    files = [folder / f"{name.replace('/', '--')}.json" for name in (*listing.aliases, listing.id)]
    published = [json.loads(path.read_text(encoding="utf-8")) for path in files if path.is_file()]
    if not published:
        pytest.skip("not in the corpus under this name")
    assert add_model.trimmed(published[0]) == load(model).config


def keys_of(value):
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys_of(inner)
