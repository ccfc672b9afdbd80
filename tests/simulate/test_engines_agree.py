"""The event engine against the step-by-step one: every row of both series, on anything that both can run."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.simulate.engine import run_steps
from kvplan.simulate.event import run_events, runs_events
from kvplan.simulate.replay import jobs
from kvplan.simulate.request import Request
from kvplan.simulate.settings import Settings
from kvplan.simulate.trace.problems import Problems


@st.composite
def engines(draw: st.DrawFn) -> Settings:
    budget = draw(st.sampled_from([8, 24, 64, 200]))
    return Settings(
        num_blocks=draw(st.integers(3, 60)),
        block_size=draw(st.sampled_from([1, 4, 6, 16])),
        max_num_seqs=draw(st.integers(1, 8)),
        max_num_batched_tokens=budget,
        max_model_len=draw(st.sampled_from([60, 200])) if (chunked := draw(st.booleans())) else budget,
        chunked_prefill=chunked,
        prefix_caching=draw(st.booleans()),
        watermark=draw(st.sampled_from([0.0, 0.1, 0.3])),
        reserve_full_isl=draw(st.booleans()),
        async_scheduling=draw(st.booleans()),
        arrival=draw(st.sampled_from(["all", "clock"])),
        n=draw(st.sampled_from([1, 1, 1, 3])),
    )


@st.composite
def traces(draw: st.DrawFn) -> list[Request]:
    """Rows that share nothing, rows of shared sources in any cut, and turns of chats that repeat earlier answers."""
    rows: list[Request] = []
    chats: list[tuple[tuple[object, int], ...]] = []
    now = 0
    for row in range(draw(st.integers(1, 14))):
        now += draw(st.sampled_from([0, 0, 4_000_000, 20_000_000, 200_000_000]))
        output = draw(st.integers(1, 30))
        kind = draw(st.sampled_from(["alone", "shared", "chat"]))
        answer = None
        spans: list[tuple[object, int]] = []
        if kind == "shared":
            for _ in range(draw(st.integers(1, 4))):
                spans.append((draw(st.integers(0, 2)), draw(st.integers(1, 40))))
        elif kind == "chat":
            spans = list(draw(st.sampled_from(chats))) if chats and draw(st.booleans()) else []
            spans.append((("question", row), draw(st.integers(1, 20))))
            answer = ("answer", row)
            chats.append((*spans, (answer, output)))
        prompt = sum(tokens for _, tokens in spans) or draw(st.integers(1, 70))
        rows.append(Request(row, now, prompt, output, tuple(spans), answer, salt=draw(st.sampled_from(["", "", "s"]))))
    return rows


def outcome(run, rows: list[Request], told: Settings):
    steps, requests, problems = [], [], Problems()
    status = run(jobs(rows, told, problems), told, steps.append, lambda row, timing: requests.append((row, timing)))
    return status, steps, sorted(requests), problems.seen


@given(engines(), traces())
@settings(max_examples=300, deadline=None)
def test_same_series(told: Settings, rows: list[Request]):
    assert runs_events(told)
    expected = outcome(run_steps, rows, told)
    got = outcome(run_events, rows, told)
    assert got[0] == expected[0]
    for have, want in zip(got[1], expected[1], strict=False):
        assert have == want
    assert got == expected


def test_what_only_the_readable_engine_runs():
    told = Settings(num_blocks=10)
    assert not runs_events(replace(told, groups=(None, 128)))
    assert not runs_events(replace(told, policy="priority"))
    assert not runs_events(replace(told, long_prefill_token_threshold=20))
