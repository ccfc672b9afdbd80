"""The settings object of a replay: read, defaulted, refused."""

from __future__ import annotations

import pytest

from kvplan.errors import UsageError
from kvplan.simulate.settings import Selection, Settings, parse_groups, read_settings

GOLDEN = {
    "trace": "azure_conv", "first_row": 5, "row_count": 10, "output_len_override": None, "arrival": "all", "speed": 1,
    "n": 1, "clock_ns": {"A": 5_000_000, "B": 25_000, "C": 40}, "watermark": 0.0, "reserve_full_isl": True,
    "async_scheduling": False, "long_prefill_token_threshold": 0, "kv_groups": "full", "retention": 0,
    "num_blocks": 6001, "block_size": 16, "max_num_seqs": 256, "max_num_batched_tokens": 8192,
    "max_model_len": 131_072, "prefix_caching": True,
}  # fmt: skip


def test_a_replays_settings():
    settings, rows = read_settings(GOLDEN)
    assert settings == Settings(num_blocks=6001, max_num_seqs=256)
    assert rows == Selection(5, 10)
    assert settings.usable == 6000
    assert Settings(num_blocks=6001, watermark=0.05).watermark_blocks == 300


@pytest.mark.parametrize(
    ("text", "groups"),
    [("full", (None,)), ("swa4096", (4096,)), ("full+swa128", (None, 128)), ("full+2xswa8", (None, 8, 8))],
)
def test_groups(text, groups):
    assert parse_groups(text) == groups


@pytest.mark.parametrize("text", ["", "full+", "swa", "swa0", "fullswa1", "999xfull", "full,swa1", "0xfull", "swa-1"])
def test_groups_that_are_none(text):
    with pytest.raises(UsageError, match="kv_groups"):
        parse_groups(text)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_blocks": 1}, "num_blocks"),
        ({"num_blocks": True}, "num_blocks"),
        ({"num_blocks": 2**40}, "num_blocks"),
        ({"block_size": 0}, "block_size"),
        ({"max_num_seqs": "many"}, "max_num_seqs"),
        ({"max_num_seqs": 9000}, "below max_num_seqs"),
        ({"kv_groups": 7}, "kv_groups"),
        ({"clock_ns": {"D": 1}}, "clock_ns"),
        ({"clock_ns": {"A": -1}}, "clock_ns.A"),
        ({"arrival": "sometimes"}, "arrival"),
        ({"watermark": 1.5}, "watermark"),
        ({"watermark": float("nan")}, "watermark"),
        ({"speed": 0}, "speed 0"),
        ({"retention": 64}, "retention"),
        ({"retention": 17, "kv_groups": "full+swa64"}, "retention"),
        ({"first_row": -1}, "first_row"),
        ({"prefix_caching": 1}, "prefix_caching"),
        ({"chunked_prefill": False}, "chunked_prefill"),
        ({"long_prefill_token_threshold": 200_000}, "long_prefill"),
        ({"nmu_blocks": 5}, "nmu_blocks"),
    ],
)
def test_what_the_engine_would_refuse(change, says):
    with pytest.raises(UsageError, match=says):
        read_settings({**GOLDEN, **change})


def test_no_pool():
    with pytest.raises(UsageError, match="num_blocks"):
        read_settings({"block_size": 16})
