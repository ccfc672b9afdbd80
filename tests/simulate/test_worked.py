"""The worked figures of paged pools, prefix caches and batching, out of whole replays."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from kvplan.simulate.baselines import Swap, chat, contiguous, radix, reclaim, static, without_prefix_cache
from kvplan.simulate.engine import run_steps
from kvplan.simulate.live import Live
from kvplan.simulate.replay import Job
from kvplan.simulate.request import Request
from kvplan.simulate.run import Result, simulate
from kvplan.simulate.scheduler import Scheduler
from kvplan.simulate.series import StepRow
from kvplan.simulate.settings import Settings
from kvplan.simulate.synthetic import parse_load, synthesize
from kvplan.simulate.tables import blocks_for
from kvplan.simulate.trace.problems import Problems
from kvplan.units import GB, MIB

TOKEN = 131_072  # bytes of KV cache, Llama-3.1-8B in bf16
ROOMY = Settings(num_blocks=10_001, max_num_seqs=256, max_model_len=32_768, arrival="clock")


def play(requests: list[Request], settings: Settings = ROOMY, **told) -> Result:
    return simulate(requests, settings, Problems(), **told)


@pytest.mark.parametrize(("tokens", "blocks", "wasted"), [(30, 2, 2), (500, 32, 12), (16, 1, 0), (17, 2, 15)])
def test_blocks_of_a_request(tokens, blocks, wasted):
    assert blocks_for(tokens, 16) == blocks
    assert blocks * 16 - tokens == wasted
    assert play([Request(0, 0, tokens, 1)]).summary.peak_used_blocks == blocks


def test_the_worst_waste_is_a_block_less_a_token():
    worst = max(blocks_for(tokens, 16) * 16 - tokens for tokens in range(1, 5000))
    assert (worst, worst * TOKEN) == (15, 1_966_080)


def test_the_last_token_takes_no_slot():
    """30 + 4 tokens: 33 are computed, so the third block is taken for the last step only."""
    used: list[int] = []
    run_steps([Job(0, 0, Request(0, 0, 30, 4), 4)], ROOMY, lambda row: used.append(row.used_blocks), lambda *_: None)
    assert used == [2, 2, 2, 3]


def test_contiguous_reservation_against_paging():
    assert (8192 - 500) * TOKEN / MIB == 961.5
    blocks = 54 * GB // (16 * TOKEN)
    paged = replace(ROOMY, num_blocks=blocks + 1, max_num_seqs=2000, max_model_len=8192, max_num_batched_tokens=10**6)
    requests = [Request(row, 0, 499, 2) for row in range(1000)]
    (scenario,) = contiguous(paged)
    assert scenario.settings.usable == 50
    assert play(requests, scenario.settings).summary.max_running == 50
    assert play(requests, paged).summary.max_running == 804


def test_tables_lie_scattered_over_the_pool():
    """Three requests that grow in turn: each table is in pieces, and no block is in two."""
    told = Settings(num_blocks=12, max_num_seqs=8, max_model_len=4096)
    scheduler = Scheduler(told)
    lives = [Live(Request(row, 0, prompt, 200), row, 0, 200, told) for row, prompt in enumerate((10, 20, 10))]
    for live in lives:
        scheduler.add(live)
    for _ in range(30):
        scheduler.deliver(scheduler.step())
    tables = [live.tables[0] for live in lives]
    assert any(after - before != 1 for table in tables for before, after in pairwise(table))
    assert len({block for table in tables for block in table}) == sum(map(len, tables))


def test_a_shared_prefix_is_hit_in_whole_blocks():
    requests = [Request(row, 0, 3200, 2, (("system", 3000), (("own", row), 200))) for row in range(2)]
    summary = play(requests).summary
    assert summary.prefix_hit_tokens == 2992 == 187 * 16
    assert 2992 / 3200 == 0.935


def test_another_first_token_hits_nothing():
    requests = [Request(0, 0, 3000, 2, (("a", 3000),)), Request(1, 0, 3000, 2, (("b", 1), ("a", 2999)))]
    assert play(requests).summary.prefix_hit_tokens == 0


def test_a_hundred_equal_prompts_share_one_copy():
    """3,000 tokens are 187 full blocks, held once; each request computes the rest in a block of its own."""
    requests = [Request(row, 0, 3000, 1, (("p", 3000),)) for row in range(100)]
    peak: list[StepRow] = []
    play(requests, on_steps=[peak.extend])
    assert max(row.used_blocks for row in peak) == 187 + 100
    assert max(row.cached_hashes for row in peak) == 187


def test_a_chat_of_ten_turns():
    figures = chat(first=1200, question=200, answer=500, turns=10)
    assert (figures.tokens_at_end, figures.without_cache, figures.new_input) == (8000, 43_500, 3000)
    assert figures.ratio == 14.5
    assert figures.tokens_at_end * TOKEN / MIB == 1000
    load = parse_load("prompt=1200 question=200 output=500 turns=10 requests=10")
    requests = list(synthesize(load, 0))
    (off,), (tokens,) = without_prefix_cache(ROOMY), radix(ROOMY)
    computed = [play(requests, settings).summary.prefill_tokens for settings in (off.settings, tokens.settings, ROOMY)]
    # the last token of an answer is sampled and never computed, so each turn computes that of the one before
    assert computed[:2] == [43_500, 3000 + 9]
    # to the block, a remainder comes on top in each of the nine later turns
    assert 0 <= computed[2] - computed[1] <= 9 * 15


def test_static_batches_wait_for_the_longest():
    requests = [Request(0, 0, 16, 20), Request(1, 0, 16, 500), *(Request(row, 0, 16, 20) for row in range(2, 50))]
    (scenario,) = static(replace(ROOMY, max_num_seqs=2))
    told = scenario.settings
    rows: list[StepRow] = []
    play(requests[:2], told, batching="static", on_steps=[rows.extend])
    # 20 and 500 tokens: the first one's place is idle for 480 of the steps
    assert sum(row.running - row.scheduled_reqs for row in rows) == 480
    rows.clear()
    play(requests[:2], replace(told, async_scheduling=True), on_steps=[rows.extend])
    assert max(row.running - row.scheduled_reqs for row in rows) == 1  # it waits for its last token, and leaves
    static_end = play(requests, told, batching="static").summary.end_ns
    assert play(requests, told).summary.end_ns < static_end


def test_recompute_or_swap_depends_on_length():
    """Computing takes 25 us a token, moving 5 and 50 in any case: from three tokens on, moving is cheaper."""
    told = reclaim(1000, 1000, 25_000, Swap(5000, 50_000))
    assert (told.recompute_ns, told.swap_ns, told.break_even) == (25_000_000, 5_050_000, 3)
    assert reclaim(1000, 64, 25_000, Swap(5000, 50_000)).recompute_ns < told.swap_ns  # most of it was still cached
    assert reclaim(1000, 1000, 4000, Swap(5000, 50_000)).break_even is None
