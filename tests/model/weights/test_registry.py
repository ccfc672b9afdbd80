"""The registry of weight rules: every rule is whole, and every built-in either has one or says that it has none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kvplan
from kvplan.model.families import readers
from kvplan.model.read import read_model
from kvplan.model.weights import Ranks, inventory, is_computed, weigh
from kvplan.model.weights import families as package
from kvplan.model.weights.families import rule_of, rules
from kvplan.model.weights.tensors import ITEM_BYTES, MODEL, Role, Stage
from kvplan.sources.builtin import builtin_ids
from kvplan.sources.checkpoint import Checkpoint

FILES = sorted(Path(package.__file__).parent.glob("[a-z]*.py"))
# Language models that exist inside a wrapper alone
INSIDE = {"AriaTextForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM", "MuseGlimmerForCausalLM"}


def test_every_rule_is_for_an_architecture_that_is_read():
    assert set(rules()) - set(readers()) <= INSIDE


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_registers_what_it_holds(path):
    """A function that returns the parts of a model and is registered under no name is half a rule."""
    public = [
        node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and [arg.arg for arg in node.args.args] == ["text"]
        and not node.name.startswith("_") and ast.unparse(node.returns) == "list[Part]"
    ]  # fmt: skip
    helpers = {"layers"}
    loose = [node.name for node in public if not node.decorator_list and node.name not in helpers]
    assert not loose
    assert public or path.stem == "__init__"


def test_an_architecture_is_found_without_importing_the_others():
    assert rule_of("LlamaForCausalLM") is not None
    assert rule_of("LlamaForSequenceClassification") is not None
    assert rule_of("NoSuchForCausalLM") is None
    assert rule_of('x")\n@weighs("') is None


@pytest.mark.parametrize("name", builtin_ids())
def test_built_ins_are_computed_or_say_that_they_are_not(name):
    model = kvplan.load_model(name)
    line = weigh(model, Ranks(), dtype="bfloat16").line
    if not is_computed(model):
        assert line.basis == "modelled"
        assert line.low < line.bytes < line.high
        return
    assert line.basis == "exact"
    for tensor in inventory(model):
        assert tensor.dtype == MODEL or tensor.dtype in ITEM_BYTES
        assert isinstance(tensor.role, Role)
        assert isinstance(tensor.stage, Stage)
        assert tensor.layers is None or set(tensor.layers) <= set(range(len(model.shape.layers)))


LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 4,
    "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize("width", [-1, "wide", [1, 2], 2**40])
def test_a_config_that_a_rule_cannot_read_gives_an_interval_and_says_why(width):
    model = read_model(Checkpoint("test", "file", {**LLAMA, "intermediate_size": 4096}))
    assert weigh(model, Ranks(), dtype="bfloat16").line.basis == "exact"
    broken = Checkpoint("test", "file", {**LLAMA, "intermediate_size": 4096, "num_experts": None})
    line = weigh(read_model(broken), Ranks(), dtype="bfloat16").line
    assert line.basis == "exact"
    object.__setattr__(model, "config", {**model.config, "intermediate_size": width})
    line = weigh(model, Ranks(), dtype="bfloat16").line
    assert line.basis == "modelled"
    assert "intermediate_size" in line.why
    assert line.low < line.bytes < line.high
