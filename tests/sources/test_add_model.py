"""scripts/add_model.py: a config.json in, a built-in out, noise dropped and nothing else."""

from __future__ import annotations

import json

import pytest
import yaml

CONFIG = {
    "architectures": ["XForCausalLM"],
    "model_type": "x",
    "a_field_of_tomorrow": 7,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1e30,
    "time_step_limit": [0.0, float("inf")],
    "sliding_window": None,
    "layer_types": ["full_attention"] * 40,
    "max_position_embeddings": 2**60,
    "strings": ["1e-06", "no", "null", "0x10", "~", "2024-01-01", "é\u2028"],
    "text_config": {"num_hidden_layers": 2, "eos_token_id": 1, "hidden_dropout": 0.1},
    "blocks": [{"attention": {"no_op": True, "use_cache": True}}],
    "quantization_config": {"quant_method": "fp8", "use_cache": 1, "ignore": ["lm_head"]},
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
    "auto_map": {"AutoConfig": "evil.Config"},
    "attention_dropout": 0.0,
    "image_token_index": 5,
    "use_cache": True,
}
DROPPED = {"id2label", "time_step_limit", "auto_map", "attention_dropout", "image_token_index", "use_cache"}


@pytest.fixture
def write(add_model, tmp_path):
    def run(config, *arguments):
        (tmp_path / "config.json").write_text(json.dumps(config))
        code = add_model.main(
            [str(tmp_path / "config.json"), "--source", "a test", "--folder", str(tmp_path), *arguments]
        )
        paths = list(tmp_path.glob("*.yaml"))
        return code, yaml.safe_load(paths[0].read_text(encoding="utf-8")) if paths else None

    return run


def test_only_noise_is_dropped_and_every_value_survives(write):
    code, document = write(
        CONFIG, "--id", "owner/X-1B", "--alias", "old/X", "--revision", "abc", "--same-geometry", "owner/Y"
    )
    assert code == 0
    kept = {key: value for key, value in CONFIG.items() if key not in DROPPED}
    kept |= {"text_config": {"num_hidden_layers": 2}, "blocks": [{"attention": {"no_op": True}}]}
    assert document["config"] == kept
    assert [document[key] for key in ("id", "aliases", "same_geometry", "revision")] == [
        "owner/X-1B",
        ["old/X"],
        ["owner/Y"],
        "abc",
    ]
    assert document["weight_bytes"] is None


def test_the_labels_of_a_classifier_size_its_head(write):
    _, document = write({"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}, "--id", "owner/X")
    assert document["config"] == {"id2label": {"0": "LABEL_0"}}


def test_weights_and_the_second_quantization_file(write, tmp_path):
    (tmp_path / "hf_quant_config.json").write_text(
        '{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}'
    )
    quant = ("--quant-config", str(tmp_path / "hf_quant_config.json"))
    _, document = write(CONFIG, "--id", "owner/X", "--weight-bytes", "16", "--weight-source", "counted", *quant)
    assert document["weight_bytes"] == {"value": 16, "source": "counted"}
    assert document["hf_quant_config"]["quantization"] == {"quant_algo": "FP8"}


def test_a_config_that_cannot_be_read_is_refused(write, capsys):
    code, document = write([], "--id", "owner/X")
    assert (code, document) == (2, None)
    assert capsys.readouterr().err.startswith("error: ")
