"""What loading adds: copies of the folded up-projections of latent attention where they are quantised."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.model.weights import Ranks, weigh

V3 = 61 * 128 * (128 + 128) * 512 * 2  # layers, heads, key and value dimensions, latent, bytes


@pytest.mark.parametrize(("tp", "size"), [(1, V3), (8, V3 // 8), (16, V3 // 16)])
def test_folded_projections_of_deepseek_v3(tp, size):
    line = weigh(kvplan.load_model("deepseek-ai/DeepSeek-V3"), Ranks(tp), dtype="bfloat16").post_load
    assert (line.bytes, line.low, line.high) == (size, size, size)


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V2-Lite", "openai/gpt-oss-20b"])
def test_nothing_is_copied_where_latents_are_plain_or_there_are_none(name):
    line = weigh(kvplan.load_model(name), Ranks(), dtype="bfloat16").post_load
    assert (line.bytes, line.basis) == (0, "exact")


def test_the_line_is_in_the_ledger_and_given_weights_hold_it():
    flags = {"gpu": "h200", "tensor_parallel_size": 8}
    lines = {line.name: line.bytes for line in kvplan.plan("deepseek-ai/DeepSeek-V3", **flags).budget.lines}
    assert lines["post_load"] == V3 // 8
    given = kvplan.plan("deepseek-ai/DeepSeek-V3", weights="84 GiB", **flags)
    assert [line.basis for line in given.budget.lines if line.name == "weights"] == ["given"]
    assert not [line for line in given.budget.lines if line.name == "post_load"]
