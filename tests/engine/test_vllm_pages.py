"""The engine's rules on hand-sized pages, where every figure can be counted on paper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.engine.vllm.capacity import Pool, cut, largest, partition
from kvplan.engine.vllm.grouping import CannotGroup, bytes_per_block, group_layers
from kvplan.engine.vllm.pages import Kind, Page, Scheduling, blocks_per_request

FULL = Page(Kind.FULL, 16, 100)
WINDOW = Page(Kind.WINDOW, 16, 100, span=1024)
STATE = Page(Kind.STATE, 16, 1500, padded=1600, resident=3)
AHEAD = Scheduling(in_flight=16_384, encoder_tokens=8_192)


@pytest.mark.parametrize(
    ("page", "length", "blocks"),
    [
        (FULL, 1, 1),
        (FULL, 16, 1),
        (FULL, 17, 2),
        (WINDOW, 8_192, 513),  # the whole length and a block, because a window may begin mid-block
        (WINDOW, 32_768, 1089),  # ceil((1023 + 16384) / 16) + 1
        (Page(Kind.CHUNKED, 16, 100, span=8_192), 32_768, 1536),
        (Page(Kind.CROSS, 16, 100), 448, 512),  # the encoder's budget, whatever the length
        (STATE, 1, 3),
        (STATE, 1_000_000, 3),
    ],
)
def test_blocks_of_one_request(page, length, blocks):
    assert blocks_per_request(page, length, AHEAD) == blocks


def test_context_parallelism_spreads_whole_lengths_only():
    over_eight = Scheduling(in_flight=0, encoder_tokens=0, dcp=8)
    assert blocks_per_request(FULL, 32_768, over_eight) == 256
    assert blocks_per_request(STATE, 32_768, over_eight) == 3


def test_equal_pages_are_one_group():
    (group,) = group_layers([FULL] * 32)
    assert (len(group.layers), group.bytes) == (32, 32 * 1600)


def test_an_indexer_beside_each_layer_joins_its_group():
    (group,) = group_layers(
        [Page(Kind.LATENT, 64, 1152, form=("latent",)), Page(Kind.LATENT, 64, 132, form=("indexer",))] * 3
    )
    assert group.bytes == 3 * 64 * (1152 + 132)


@pytest.mark.parametrize(
    ("windows", "fulls", "sizes"),
    [
        (52, 10, [10, 9, 9, 9, 9, 8, 8]),  # Gemma-3-27B: groups of the smaller bucket's size
        (12, 12, [12, 12]),
        (12, 13, [13, 12]),  # nearly equal buckets: the larger size, padded
        (22, 4, [4, 4, 4, 4, 4, 4, 2]),
    ],
)
def test_mixed_attention_is_cut_into_groups_of_one_size(windows, fulls, sizes):
    groups = group_layers([WINDOW] * windows + [FULL] * fulls)
    assert max(len(group.layers) for group in groups) == max(sizes)
    assert sum(len(group.layers) for group in groups) == windows + fulls
    assert len(groups) == len(sizes)
    assert bytes_per_block(groups) == max(sizes) * 1600


def test_layers_are_dealt_to_groups_in_turn():
    groups = group_layers([WINDOW] * 4 + [FULL] * 2)
    assert [group.layers for group in groups] == [(0, 2), (1, 3), (4, 5)]


def test_smaller_pages_get_longer_blocks_or_padding():
    half = Page(Kind.FULL, 16, 50)
    longer, window = group_layers([half, WINDOW])
    assert (longer.block_size, longer.bytes, window.bytes) == (32, 1600, 1600)
    odd = Page(Kind.FULL, 16, 70)
    padded, _ = group_layers([odd, WINDOW])
    assert (padded.block_size, padded.bytes) == (16, 1600)


def test_a_latent_page_cannot_be_padded():
    with pytest.raises(CannotGroup):
        group_layers([Page(Kind.LATENT, 16, 70), STATE])


def test_without_the_hybrid_manager_everything_is_kept_whole():
    (group,) = group_layers([WINDOW] * 52 + [FULL] * 10, hybrid=False)
    assert group.blocks(32_768, AHEAD) == 2048
    with pytest.raises(CannotGroup):
        group_layers([STATE, FULL], hybrid=False)


@pytest.mark.parametrize(
    ("layers", "stages", "sizes"),
    [
        (32, 1, [32]),
        (32, 4, [8, 8, 8, 8]),
        (61, 2, [31, 30]),
        (30, 4, [7, 8, 8, 7]),
        (7, 4, [2, 2, 2, 1]),
        (10, 4, [2, 3, 3, 2]),
    ],
)
def test_pipeline_stages_give_the_rest_to_the_middle(layers, stages, sizes):
    parts = partition(layers, stages)
    assert [len(part) for part in parts] == sizes
    assert [layer for part in parts for layer in part] == list(range(layers))


@given(st.integers(1, 200), st.integers(1, 16))
def test_stages_hold_every_layer_once(layers, stages):
    parts = partition(layers, stages)
    assert [layer for part in parts for layer in part] == list(range(layers))


def pool(pages: list[Page], stages: int = 1) -> Pool:
    groups = group_layers(pages)
    return Pool(groups, cut(groups, range(len(pages)), partition(len(pages), stages)), AHEAD)


def test_the_fullest_stage_decides():
    uneven = pool([FULL] * 3, stages=2)
    assert uneven.bytes_per_block == 2 * 1600
    assert uneven.num_blocks(32_000) == 10


def test_one_block_is_held_back_in_the_fit_check_only():
    one = pool([FULL])
    assert one.num_blocks(1600 * 10) == 10
    assert one.fits(16 * 9, 1600 * 10)
    assert not one.fits(16 * 9 + 1, 1600 * 10)
    assert one.longest(10**6, 1600 * 10) == 16 * 9
    assert one.longest(10**6, 1600) == 0


def test_tokens_are_concurrency_times_length_cut_to_a_whole_number():
    one = pool([FULL])
    assert one.concurrency(100, 40) == 100 / 3
    assert one.tokens(100, 40) == int(100 / 3 * 40)


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_bisection_finds_the_last_that_holds(limit, last):
    assert largest(lambda n: n <= last, limit) == min(limit, last)


PAGES = st.sampled_from([FULL, WINDOW, STATE, Page(Kind.FULL, 16, 50), Page(Kind.CHUNKED, 16, 100, span=512)])


@given(st.lists(PAGES, min_size=1, max_size=40))
def test_every_layer_is_in_one_group_and_no_group_is_wider_than_a_block(pages):
    groups = group_layers(pages)
    assert sorted(layer for group in groups for layer in group.layers) == list(range(len(pages)))
    assert all(group.bytes <= bytes_per_block(groups) for group in groups)


@given(st.lists(PAGES, min_size=1, max_size=20), st.integers(1, 10**5), st.integers(1, 10**5))
def test_longer_requests_never_claim_less(pages, a, b):
    mixed = pool(pages)
    short, long = sorted((a, b))
    assert mixed.blocks_per_request(short) <= mixed.blocks_per_request(long)
