"""The readers as a whole: each registers something and refuses an empty config; class defaults are known facts."""

from pathlib import Path

import pytest
from model.reading import shape_of

import kvplan
from kvplan.assets import PROFILES
from kvplan.errors import InvalidConfig, UnknownArchitecture
from kvplan.model import families
from kvplan.model.fields import class_profile
from kvplan.model.read import read_model
from kvplan.sources.checkpoint import Checkpoint

READERS = families.readers()
FILES = [path for folder in families.__path__ for path in Path(folder).glob("[a-z]*.py")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_module_registers_a_reader(path):
    assert "reads(" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("architecture", sorted(READERS))
def test_an_empty_config_is_refused_by_naming_a_field(architecture):
    with pytest.raises(InvalidConfig, match=r"config\.json(:| lacks) \w"):
        shape_of(architecture, {})


def test_a_model_type_stands_for_a_missing_architecture():
    config = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4}
    model = read_model(Checkpoint("test", "file", config))
    assert (model.architecture, len(model.shape.layers)) == ("LlamaForCausalLM", 2)


@pytest.mark.parametrize(
    ("config", "hint"),
    [
        ({"architectures": ["LlamaForCausalML"]}, "did you mean LlamaForCausalLM"),
        ({"architectures": ["Qwen9ForCausalLM"]}, "did you mean Qwen"),
        ({"architectures": ["x" * 5000]}, ""),
        ({"model_type": "lama"}, ""),
        ({}, ""),
        ({"architectures": []}, ""),
        ({"architectures": ["Model"]}, ""),
    ],
)
def test_an_unknown_architecture_is_declined_with_near_names(config, hint):
    with pytest.raises(UnknownArchitecture) as caught:
        read_model(Checkpoint("test", "file", config))
    assert len(caught.value.message) < 200
    assert hint in caught.value.hint


@pytest.mark.parametrize("architectures", ["LlamaForCausalLM", [1], {"a": 1}])
def test_architectures_must_be_a_list_of_names(architectures):
    with pytest.raises(InvalidConfig, match="architectures"):
        read_model(Checkpoint("test", "file", {"architectures": architectures}))


def test_what_the_class_supplies_is_kept_as_an_assumption():
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_hidden_layers": 2,
              "hidden_size": 1024, "num_attention_heads": 32, "num_key_value_heads": 8}  # fmt: skip
    model = read_model(Checkpoint("test", "file", config))
    assumed = {fact.name: (fact.value, fact.source) for fact in model.assumed}
    assert model.shape.head_dim == 128
    assert assumed["head_dim"] == (128, "transformers 5.20.2, Qwen3Config")


@pytest.mark.parametrize("path", sorted((PROFILES / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_class_defaults_are_named_after_their_model_type(path):
    profile = class_profile(path.stem)
    assert profile["model_type"] == path.stem
    assert profile["source"]
    assert profile["defaults"] or profile["sections"]
    assert all(value is not None for value in profile["defaults"].values())


def test_a_default_that_an_override_outweighs_is_not_assumed():
    model = kvplan.load_model("moonshotai/Kimi-Linear-48B-A3B-Instruct")  # model_max_length 1,048,576; its class: 4,096
    assert (model.length.key, model.length.limit) == ("model_max_length", 1_048_576)
    assert "max_position_embeddings" not in [fact.name for fact in model.assumed]
    assert kvplan.plan(model).warnings == ()
