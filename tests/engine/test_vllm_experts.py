"""Experts over TP x DP: the slice of each must come out whole, unless whole experts go to the ranks."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.fit.search import fit
from kvplan.fit.wish import Wish
from kvplan.hardware import find_gpu
from kvplan.model.weights.expert_widths import expert_widths

R1, GLM, QWEN = "deepseek-ai/DeepSeek-R1", "zai-org/GLM-4.5", "Qwen/Qwen3-235B-A22B"


def codes(model, **flags):
    return [note.code for note in kvplan.plan(model, gpu="b200", max_model_len=2048, **flags).reasons]


@pytest.mark.parametrize(
    ("model", "tensor", "data"), [(R1, 1, 7), (GLM, 1, 5), (GLM, 1, 7), (QWEN, 2, 5), ("openai/gpt-oss-120b", 1, 7)]
)
def test_a_slice_that_is_not_whole_is_refused(model, tensor, data):
    sizes = {"tensor_parallel_size": tensor, "data_parallel_size": data}
    plan = kvplan.plan(model, gpu="b200", max_model_len=2048, **sizes)
    reason = next(note for note in plan.reasons if note.code == "experts_not_divisible")
    assert f"data parallel size {data}" in reason.message
    assert "--enable-expert-parallel" in reason.hint
    assert "experts_not_divisible" not in codes(model, **sizes, enable_expert_parallel=True)


@pytest.mark.parametrize(("model", "tensor", "data"), [(R1, 1, 8), (GLM, 2, 4), (QWEN, 4, 2), ("Qwen/Qwen3-8B", 1, 7)])
def test_whole_slices_and_dense_models_are_not(model, tensor, data):
    assert "experts_not_divisible" not in codes(model, tensor_parallel_size=tensor, data_parallel_size=data)


def test_widths_are_those_of_the_weight_rule():
    """Mixtral has no field of its own for its experts; its MLP's is theirs."""
    assert expert_widths(kvplan.load_model("mistralai/Mixtral-8x7B-Instruct-v0.1")) == (14336,)
    assert expert_widths(kvplan.load_model(R1)) == (2048,)
    assert expert_widths(kvplan.load_model("Qwen/Qwen3-8B")) == ()


def test_fit_recommends_no_split_that_cuts_an_expert():
    model, card = kvplan.load_model(R1), find_gpu("h200-sxm")
    wish = Wish(concurrency=4, context=8192)
    seven = fit(model, wish, [card], max_gpus=7)
    assert not seven.found  # 6 or 7 GPUs would hold it
    whole = fit(model, wish, [card], max_gpus=7, enable_expert_parallel=True)
    assert whole.found[0].options[0].gpus == 6
    eight = fit(model, wish, [card], max_gpus=8).found[0]
    assert all(2048 % option.gpus == 0 for option in (*eight.options, *eight.layouts))
