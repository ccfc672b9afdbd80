"""Each quantised form of one matrix: the tensors, their stored shapes and dtypes, and what a rank keeps."""

from __future__ import annotations

import pytest

from kvplan.model.weights.expand import expand
from kvplan.model.weights.forms import Fp8, Int8, Microscaled, Nvfp4, Packed, Plain
from kvplan.model.weights.placement import Ranks, share
from kvplan.model.weights.tensors import MODEL, Linear, Role

ROWS, COLUMNS = 512, 1024
UP = Linear("up", ROWS, COLUMNS)
DOWN = Linear("down", ROWS, COLUMNS, Role.ROW)
EXPERTS = Linear("e.{}", ROWS, COLUMNS, Role.EXPERT, kind="experts", each=8)

FORMS = [
    (Plain(), {"weight": ((512, 1024), MODEL)}),
    (Fp8("tensor", inputs=True), {
        "weight": ((512, 1024), "float8_e4m3fn"), "weight_scale": ((), "float32"), "input_scale": ((), "float32"),
    }),
    (Fp8("channel"), {"weight": ((512, 1024), "float8_e4m3fn"), "weight_scale": ((512, 1), "float32")}),
    (Fp8((128, 128), scale_name="weight_scale_inv"), {
        "weight": ((512, 1024), "float8_e4m3fn"), "weight_scale_inv": ((4, 8), "float32"),
    }),
    (Fp8("channel", upper_bound=True), {
        "weight": ((512, 1024), "float8_e4m3fn"), "weight_scale": ((512, 1), "float32"),
        "input_scale_ub": ((), "float32"),
    }),
    (Int8("channel"), {"weight": ((512, 1024), "int8"), "weight_scale": ((512, 1), "float32")}),
    (Packed(4, 128, "gptq"), {
        "qweight": ((128, 512), "int32"), "scales": ((8, 512), MODEL), "qzeros": ((8, 64), "int32"),
        "g_idx": ((1024,), "int32"),
    }),
    (Packed(4, 128, "awq"), {
        "qweight": ((1024, 64), "int32"), "scales": ((8, 512), MODEL), "qzeros": ((8, 64), "int32"),
    }),
    (Packed(4, 128, "compressed-tensors", zero_points=False), {
        "weight_packed": ((512, 128), "int32"), "weight_scale": ((512, 8), MODEL), "weight_shape": ((2,), "int64"),
    }),
    (Packed(8, None, "compressed-tensors", zero_points=False), {
        "weight_packed": ((512, 256), "int32"), "weight_scale": ((512, 1), MODEL), "weight_shape": ((2,), "int64"),
    }),
    (Nvfp4(), {
        "weight": ((512, 512), "uint8"), "weight_scale": ((512, 64), "float8_e4m3fn"),
        "weight_scale_2": ((), "float32"), "input_scale": ((), "float32"),
    }),
    (Microscaled(4), {"weight": ((512, 512), "uint8"), "weight_scale": ((512, 32), "uint8")}),
    (Microscaled(8), {"weight": ((512, 1024), "float8_e4m3fn"), "weight_scale": ((512, 32), "uint8")}),
]  # fmt: skip


@pytest.mark.parametrize(("form", "tensors"), FORMS, ids=lambda value: type(value).__name__)
def test_tensors_of_a_form(form, tensors):
    assert {t.name.removeprefix("up."): (t.stored_shape, t.dtype) for t in expand(UP, form)} == tensors


@pytest.mark.parametrize(
    ("form", "up", "down"),
    [
        (Fp8("channel"), [256 * 1024, 256], [512 * 512, 512]),
        (Fp8((128, 128)), [256 * 1024, 2 * 8], [512 * 512, 4 * 4]),
        (Packed(4, 128, "awq"), [1024 * 32, 8 * 256, 8 * 32], [512 * 64, 4 * 512, 4 * 64]),
        (Packed(4, None, "gptq"), [128 * 256, 256, 32, 1024], [64 * 512, 512, 64, 1024]),
        (Nvfp4(), [256 * 512, 256 * 64, 1, 1], [512 * 256, 512 * 32, 1, 1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_scales_of_outputs_are_whole_where_inputs_are_cut(form, up, down):
    """What one of two ranks keeps of each tensor."""
    assert [share(tensor, Ranks(tensor=2)) for tensor in expand(UP, form)] == up
    assert [share(tensor, Ranks(tensor=2)) for tensor in expand(DOWN, form)] == down


def test_gptq_keeps_room_for_biases_of_experts_that_no_checkpoint_has():
    engine = [tensor for tensor in expand(EXPERTS, Packed(4, 128, "gptq")) if tensor.holder == "engine"]
    assert [(tensor.name, tensor.shape, tensor.count) for tensor in engine] == [("e.{}.bias", (512,), 8)]


def test_gate_and_up_of_an_expert_share_the_scale_of_activations():
    second = Linear("e.{}.up", ROWS, COLUMNS, Role.EXPERT, kind="experts", each=8, leads=False)
    held = {tensor.name: tensor.holder for tensor in expand(second, Fp8("tensor", inputs=True))}
    assert held == {"e.{}.up.weight": "both", "e.{}.up.weight_scale": "both", "e.{}.up.input_scale": "checkpoint"}


def test_tiles_pad_experts_alone():
    tiled = Microscaled(4, tile=(128, 256))
    assert [tensor.shape for tensor in expand(Linear("e", 720, 2880, Role.EXPERT, kind="experts"), tiled)] == [
        (720, 3072), (720, 3072),
    ]  # fmt: skip
    assert [tensor.shape for tensor in expand(Linear("up", 720, 2880), tiled)] == [(720, 2880), (720, 2880)]
