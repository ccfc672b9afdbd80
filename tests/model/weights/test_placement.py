"""The placement table, role by role, and how layers and ends go to pipeline stages."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.model.weights import Ranks, weigh
from kvplan.model.weights.placement import rank_bytes, share
from kvplan.model.weights.tensors import Role, Stage, Tensor

MATRIX = (512, 1024)


@pytest.mark.parametrize(
    ("role", "axis", "tp", "kept"),
    [
        (Role.COLUMN, 0, 4, 128 * 1024),
        (Role.ROW, 1, 4, 512 * 256),
        (Role.REPLICATED, 0, 4, 512 * 1024),
        (Role.TOWER, 0, 4, 512 * 1024),
        (Role.TABLE, None, 4, 512 * 1024),
        (Role.EXPERT, 0, 4, 128 * 1024),
        (Role.MAP, None, 4, 0),
        (Role.COLUMN, 0, 3, 171 * 1024),  # the last rank's share is padded
    ],
)
def test_what_a_rank_keeps_of_a_matrix(role, axis, tp, kept):
    assert share(Tensor("t", MATRIX, role, axis=axis), Ranks(tensor=tp)) == kept


@pytest.mark.parametrize(
    ("rows", "tp", "kept"), [(32000, 1, 32000), (32000, 2, 16000), (50257, 1, 50304), (50257, 8, 6288)]
)
def test_vocabularies_are_padded_to_64_rows(rows, tp, kept):
    assert share(Tensor("t", (rows,), Role.VOCABULARY), Ranks(tensor=tp)) == kept


@pytest.mark.parametrize(("tp", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1), (32, 1)])
def test_kv_heads_are_copied_where_there_are_more_ranks(tp, heads):
    assert share(Tensor("t", (8 * 128, 4096), Role.KV, heads=8), Ranks(tensor=tp)) == heads * 128 * 4096


@pytest.mark.parametrize(
    ("ranks", "experts", "width"),
    [
        (Ranks(tensor=8), 64, 1024 // 8),
        (Ranks(tensor=4, data=2), 64, 1024 // 8),
        (Ranks(tensor=8, expert_parallel=True), 8, 1024),
        (Ranks(tensor=2, data=8, expert_parallel=True), 4, 1024),
        (Ranks(tensor=48, expert_parallel=True), 2, 1024),  # 64 over 48: the fullest rank has two
    ],
)
def test_experts_are_split_by_width_or_by_number(ranks, experts, width):
    tensor = Tensor("experts.{}.up", (1024, 2048), Role.EXPERT, each=64)
    assert share(tensor, ranks) == experts * width * 2048


def test_the_map_of_experts_is_there_under_expert_parallelism():
    ranks = Tensor("map", (64,), Role.MAP, axis=None, dtype="int32")
    assert [share(ranks, Ranks(tensor=8, expert_parallel=ep)) for ep in (False, True)] == [0, 64]
    assert share(ranks, Ranks(expert_parallel=True)) == 0


def test_blocks_of_scales_shrink_until_they_divide_an_experts_share():
    scales = Tensor("s", (768, 2048), Role.EXPERT, per=(128, 128), fits_share=True)
    assert [share(scales, Ranks(tensor=tp)) for tp in (1, 2, 4, 8)] == [6 * 16, 3 * 16, 3 * 32, 3 * 64]


STAGES = Ranks(stages=(range(2), range(2, 4), range(4, 6)))


@pytest.mark.parametrize(
    ("where", "held"),
    [
        ({"layers": (0, 1, 2, 5)}, [2, 1, 1]),
        ({"layers": ()}, [0, 0, 0]),
        ({"stage": Stage.FIRST}, [1, 0, 0]),
        ({"stage": Stage.LAST}, [0, 0, 1]),
        ({"stage": Stage.ENDS}, [1, 0, 1]),
        ({"stage": Stage.EVERY}, [1, 1, 1]),
    ],
)
def test_what_each_stage_holds(where, held):
    found = rank_bytes([Tensor("t", (10,), dtype="int8", **where)], STAGES, "bfloat16")
    assert [roles.total() for roles in found] == [10 * count for count in held]


def test_a_tied_embedding_is_held_twice_by_a_pipeline():
    model = kvplan.load_model("meta-llama/Llama-3.2-1B-Instruct")
    stages = Ranks(stages=(range(8), range(8, 16)))
    embedding = 128_256 * 2048 * 2
    one = weigh(model, Ranks(), dtype="bfloat16").line.bytes
    assert weigh(model, stages, dtype="bfloat16").line.bytes > (one + embedding) // 2


@pytest.mark.parametrize(
    ("card", "tp", "size"),
    [
        ("h100", 1, 13_794_819_584),  # Triton: the width is a whole number of 64
        ("h100", 2, 7_031_724_032),
        ("b200", 1, 14_712_782_336),  # TRT-LLM: 2880 becomes 2944 wide and 3072 deep
        ("a100", 1, 14_712_782_336),  # Marlin's tiles are the same
    ],
)
def test_mxfp4_experts_are_padded_by_the_kernel_of_the_card(card, tp, size):
    plan = kvplan.plan("openai/gpt-oss-20b", gpu=card, tensor_parallel_size=tp)
    assert plan.weights_per_rank == size
