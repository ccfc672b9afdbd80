"""Which modules a quantization section quantises, and how: by method, list, pattern and kind."""

from __future__ import annotations

import time

import pytest

import kvplan
from kvplan.errors import InvalidConfig
from kvplan.model.read import read_model
from kvplan.model.weights import Ranks, weigh
from kvplan.model.weights.forms import Fp8, Int8, Microscaled, Nvfp4, Packed, Plain
from kvplan.model.weights.inventory import scheme_for
from kvplan.model.weights.patterns import compiled, excluded
from kvplan.sources.checkpoint import Checkpoint

CONFIG = {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 2048,
    "num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000,
    "num_local_experts": 8, "num_experts_per_tok": 2, "torch_dtype": "bfloat16", "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}  # fmt: skip
Q, EXPERTS = "model.layers.1.self_attn.q_proj", "model.layers.1.block_sparse_moe.experts.0.w1"
PLAIN = Plain()


def model_of(section, **changes):
    return read_model(Checkpoint("test", "file", {**CONFIG, **changes, "quantization_config": section}))


def chosen(section, asked=None):
    """Return the forms of a projection, an expert and the head."""
    choose = scheme_for(model_of(section) if section else model_of(None), asked, (9, 0)).choose
    return choose(Q, "linear"), choose(EXPERTS, "experts"), choose("lm_head", "head")


BLOCK = Fp8((128, 128), scale_name="weight_scale_inv")
TENSOR, CT4 = Fp8("tensor"), Packed(4, 128, "compressed-tensors", zero_points=False)
GPTQ = Packed(4, 128, "gptq", zero_points=False)
AWQ, ROUNDED = Packed(4, 128, "awq"), Packed(4, 128, "awq", zero_points=False, tile=64)
FP8_WEIGHTS = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}


def compressed(weights, inputs=None, ignore=("lm_head",), targets=("Linear",)):
    group = {"targets": list(targets), "weights": weights, "input_activations": inputs}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": list(ignore)}


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
DYNAMIC = {"num_bits": 8, "dynamic": True}
STATIC = Fp8("tensor", inputs=True)
RULES = {r"-:.*experts": {}, r"+:.*q_proj": {"bits": 8}}
MIXED = {Q: {"quant_algo": "FP8"}, EXPERTS: {"quant_algo": "NVFP4"}}
AWQ4 = {"quant_method": "awq", "bits": 4, "group_size": 128}
ROUND = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "packing_format": "auto_round:auto_awq"}
CASES = [
    ({"quant_method": "fp8", "activation_scheme": "dynamic"}, (TENSOR, TENSOR, PLAIN)),
    ({"quant_method": "fp8", "activation_scheme": "static"}, (STATIC, STATIC, PLAIN)),
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, (BLOCK, BLOCK, PLAIN)),
    ({"quant_method": "fp8", "ignored_layers": [Q]}, (PLAIN, TENSOR, PLAIN)),
    ({"quant_method": "fp8", "ignored_layers": [EXPERTS]}, (TENSOR, PLAIN, PLAIN)),
    ({"quant_method": "fbgemm_fp8"}, (Fp8("channel", upper_bound=True), PLAIN, PLAIN)),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128}, (GPTQ, GPTQ, PLAIN)),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True}, (GPTQ, GPTQ, GPTQ)),
    (
        {"quant_method": "gptq", "bits": 4, "group_size": -1},
        (Packed(4, None, "gptq", zero_points=False),) * 2 + (PLAIN,),
    ),
    (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": RULES},
        (Packed(8, 128, "gptq", zero_points=False), PLAIN, PLAIN),
    ),
    ({**AWQ4, "modules_to_not_convert": ["self_attn"]}, (PLAIN, AWQ, PLAIN)),
    (ROUND, (ROUNDED, ROUNDED, PLAIN)),
    (compressed(INT4), (CT4, CT4, PLAIN)),
    (compressed(INT4, ignore=["re:.*self_attn.*"]), (PLAIN, CT4, PLAIN)),
    (compressed(INT4, targets=[r"re:.*q_proj$"]), (CT4, PLAIN, PLAIN)),
    (compressed(FP8_WEIGHTS, DYNAMIC), (Fp8("channel"),) * 2 + (PLAIN,)),
    (compressed({**FP8_WEIGHTS, "strategy": "tensor"}, {**DYNAMIC, "dynamic": False}), (STATIC, STATIC, PLAIN)),
    (compressed({**FP8_WEIGHTS, "type": "int"}, DYNAMIC), (Int8("channel"),) * 2 + (PLAIN,)),
    (
        compressed({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}, DYNAMIC),
        (Nvfp4(names="compressed-tensors"),) * 2 + (PLAIN,),
    ),
    ({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}, (STATIC, STATIC, PLAIN)),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, (Nvfp4(), Nvfp4(), Nvfp4())),
    (
        {"quantization": {"quant_algo": "FP8_PB_WO", "exclude_modules": ["lm_head"]}},
        (Fp8((128, 128)), Fp8("tensor", inputs=True), PLAIN),
    ),
    (
        {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": MIXED}},
        (Fp8("tensor", inputs=True), Nvfp4(), PLAIN),
    ),
    ({"quant_method": "mxfp4"}, (PLAIN, Microscaled(4, tile=(64, 1)), PLAIN)),
    ({"quant_method": "mxfp8"}, (Microscaled(8),) * 3),
    (
        {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}},
        (TENSOR, TENSOR, TENSOR),
    ),
]


@pytest.mark.parametrize(("section", "forms"), CASES, ids=lambda value: str(value)[:70])
def test_forms_by_section(section, forms):
    have = chosen(section)
    assert have[:2] == forms[:2]
    if section.get("quant_method") != "quark":  # its head is quantised unless it is excluded
        assert have[2] == forms[2]


@pytest.mark.parametrize(
    ("asked", "form"),
    [
        ("fp8", Fp8("tensor")),
        ("fp8_per_channel", Fp8("channel")),
        ("fp8_per_block", Fp8((128, 128))),
        ("mxfp8", Microscaled(8)),
    ],
)
def test_the_flag_quantises_a_plain_checkpoint(asked, form):
    assert chosen(None, asked) == (form, form, PLAIN)


def test_a_flag_takes_half_of_a_llama():
    plain = kvplan.plan("meta-llama/Llama-3.1-8B", gpu="h100").weights_per_rank
    assert plain - kvplan.plan("meta-llama/Llama-3.1-8B", gpu="h100", quantization="fp8").weights_per_rank == (
        32 * (4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 14336) - 32 * 7 * 4
    )


@pytest.mark.parametrize(
    "section",
    [
        {"quant_method": "squeezellm", "bits": 4},
        {"quant_method": "nobody-knows"},
        {"quant_method": "quark"},
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
    ],
    ids=lambda section: section["quant_method"],
)
def test_a_method_that_is_not_known_gives_an_interval(section):
    line = weigh(model_of(section), Ranks(), dtype="bfloat16").line
    assert line.basis == "modelled"
    assert line.low < line.bytes < line.high
    assert "guessed" in line.why


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(.*)*x", "(a|aa)+$", ".*.*.*.*.*.*x", "(", "[z-a]", "a" * 500, "a{1,9}{2,}{3,}"]
)
def test_patterns_that_could_run_for_ever_are_refused(pattern):
    with pytest.raises(InvalidConfig, match="pattern"):
        compiled(pattern)
    section = compressed(INT4, ignore=[f"re:{pattern}"])
    assert weigh(model_of(section), Ranks(), dtype="bfloat16").line.basis == "modelled"


def test_patterns_together_have_so_much_time():
    section = compressed(INT4, ignore=[f"re:.*{'.*' * 2}{i}Z" for i in range(64)])
    start = time.process_time()
    line = weigh(model_of(section, num_hidden_layers=400), Ranks(), dtype="bfloat16").line
    assert time.process_time() - start < 3
    assert "too long" in line.why


def test_a_long_list_takes_no_longer_than_a_short_one():
    names = [f"model.layers.{i}.self_attn.{name}_proj" for i in range(2000) for name in "qkvo"]
    section = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": names}
    start = time.perf_counter()
    weigh(model_of(section, num_hidden_layers=400), Ranks(), dtype="bfloat16")
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize(
    ("listed", "name", "is_excluded"),
    [
        ("lm_head", "lm_head", True),
        ("model.layers.1.self_attn*", "model.layers.1.self_attn.q_proj", True),
        ("model.layers.1.self_attn*", "model.layers.11.self_attn.q_proj", False),
        ("self_attn", "model.layers.1.self_attn.q_proj", True),
        ("*visual*", "model.visual.blocks.0.attn.qkv", True),
        ("model.layers.1.", "model.layers.1.mlp.up_proj", True),
        ("model.layers.[0-3].mlp*", "model.layers.2.mlp.up_proj", True),
        ("model.layers.7.mlp", "language_model.model.layers.7.mlp.up_proj", True),
        ("mlp.down", "model.layers.1.mlp.up_proj", False),
    ],
)
def test_names_that_modelopt_leaves_out(listed, name, is_excluded):
    assert excluded([listed])(name) is is_excluded


def test_too_many_general_names_are_refused():
    with pytest.raises(InvalidConfig, match="belong to no layer"):
        excluded(f"module{i}" for i in range(600))


def test_a_method_by_its_other_spelling():
    assert chosen(compressed(INT4) | {"quant_method": "compressed_tensors"}) == (CT4, CT4, PLAIN)
