"""The event engine against the step-by-step one: every row of both series, on anything that both can run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.simulate.engine import run_steps
from kvplan.simulate.event import run_events, runs_events
from kvplan.simulate.replay import Job
from kvplan.simulate.request import Request
from kvplan.simulate.settings import Settings


@st.composite
def engines(draw: st.DrawFn) -> Settings:
    budget = draw(st.sampled_from([8, 24, 64, 200]))
    chunked = draw(st.booleans())
    return Settings(
        num_blocks=draw(st.integers(3, 60)),
        block_size=draw(st.sampled_from([1, 4, 6, 16])),
        max_num_seqs=draw(st.integers(1, 8)),
        max_num_batched_tokens=budget,
        max_model_len=draw(st.sampled_from([60, 200])) if chunked else budget,
        chunked_prefill=chunked,
        prefix_caching=draw(st.booleans()),
        watermark=draw(st.sampled_from([0.0, 0.1, 0.3])),
        reserve_full_isl=draw(st.booleans()),
        async_scheduling=draw(st.booleans()),
        arrival="clock",
    )


@st.composite
def traces(draw: st.DrawFn) -> list[Request]:
    """Rows that share nothing, rows of shared sources in any cut, and turns of chats that repeat earlier answers."""
    rows: list[Request] = []
    chats: list[tuple[tuple[object, int], ...]] = [()]
    now = 0
    for row in range(draw(st.integers(1, 14))):
        now += draw(st.sampled_from([0, 0, 4_000_000, 20_000_000, 200_000_000]))
        output = draw(st.integers(1, 30))
        kind = draw(st.sampled_from(["alone", "shared", "chat"]))
        answer = None
        spans: list[tuple[object, int]] = []
        if kind == "shared":
            spans = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40)), min_size=1, max_size=4))
        elif kind == "chat":
            spans = [
                *draw(st.sampled_from(chats)),
                (draw(st.sampled_from([("ask", row), 0, 1])), draw(st.integers(1, 20))),
            ]
            answer = ("answer", row)
            chats.append((*spans, (answer, output)))
        prompt = sum(tokens for _, tokens in spans) or draw(st.integers(1, 70))
        rows.append(Request(row, now, prompt, output, tuple(spans), answer, salt=draw(st.sampled_from(["", "", "s"]))))
    return rows


def every_job(rows: list[Request], told: Settings, n: int) -> list[Job]:
    """Jobs as the front end makes them, but also those that can never fit: the engines must come to an end."""
    fitting = [row for row in rows if row.prompt < told.max_model_len]
    jobs = []
    for row in fitting:
        shared = row if row.spans else row._replace(spans=((("row", row.row), row.prompt),) if n > 1 else ())
        for child in range(n):
            placed = shared if child == 0 else shared._replace(answer=None)
            jobs.append(Job(len(jobs), child, placed, min(row.output, told.max_model_len - row.prompt)))
    return jobs


def outcome(run, jobs: list[Job], told: Settings):
    steps, requests = [], []
    status = run(jobs, told, steps.append, lambda row, timing: requests.append((row, timing)))
    return status, steps, sorted(requests)


@given(engines(), traces(), st.sampled_from([1, 1, 3]))
@settings(max_examples=400, deadline=None)
def test_same_series(told: Settings, rows: list[Request], n: int):
    assert runs_events(told)
    jobs = every_job(rows, told, n)
    expected, got = outcome(run_steps, jobs, told), outcome(run_events, jobs, told)
    assert got == expected
    steps, requests = got[1:]
    assert all(0 <= step.used_blocks <= told.usable for step in steps)
    assert got[0] != "complete" or (not steps or steps[-1].used_blocks_end == 0)
    assert got[0] != "complete" or all(row.output_tokens == row.max_tokens for row, _ in requests)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        # a prompt that is longer than the pool: refused at the gate for ever
        ({}, "head_of_line_blocked"),
        # admitted without the gate, it meets the end of the pool; what it computed is then in its own way
        ({"reserve_full_isl": False}, "head_of_line_blocked"),
        # and without a cache it starts again, and again
        ({"reserve_full_isl": False, "prefix_caching": False}, "no_progress"),
        ({"reserve_full_isl": False, "prefix_caching": False, "async_scheduling": True}, "no_progress"),
    ],
)
def test_what_never_fits_ends_the_replay(change, status):
    told = Settings(num_blocks=11, max_num_seqs=8, max_num_batched_tokens=64, max_model_len=4096, **change)
    jobs = [Job(0, 0, Request(0, 0, 200, 2), 2), Job(1, 0, Request(1, 0, 10, 2), 2)]
    expected = outcome(run_steps, jobs, told)
    assert expected[0] == status
    assert [row.finish_step for row, _ in expected[2]] == [None, None]
    assert outcome(run_events, jobs, told) == expected


def test_what_only_the_readable_engine_runs():
    told = Settings(num_blocks=10)
    assert not runs_events(replace(told, groups=(None, 128)))
    assert not runs_events(replace(told, policy="priority"))
    assert not runs_events(replace(told, long_prefill_token_threshold=20))
