"""Made-up traffic: what the words mean, the same for a seed, in order, in bounded memory."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from statistics import mean, median

import pytest

from kvplan.errors import UsageError
from kvplan.simulate.run import simulate
from kvplan.simulate.settings import Settings
from kvplan.simulate.synthetic import parse_load, synthesize
from kvplan.simulate.trace.problems import Problems

WORDS = "prompt=lognormal(1200,0.9) output=exp(300) rate=8 prefix=3000@0.6 turns=10 requests=20000"


def drawn(text: str, seed: int = 1):
    return list(synthesize(parse_load(text), seed))


def test_the_same_for_a_seed():
    assert drawn(WORDS) == drawn(WORDS)
    assert drawn(WORDS) != drawn(WORDS, seed=2)


def test_the_words_mean_what_they_say():
    rows = drawn(WORDS)
    assert len(rows) == 20_000
    assert all(first.arrival_ns <= second.arrival_ns for first, second in pairwise(rows))
    assert mean(row.output for row in rows) == pytest.approx(300, rel=0.05)
    starts = [row for row in rows if len(row.spans) <= 2]
    shared = [row for row in starts if row.spans[0] == (("prefix", 0), 3000)]
    assert len(shared) / len(starts) == pytest.approx(0.6, abs=0.03)
    assert median(row.spans[-1][1] for row in rows) == pytest.approx(1200, rel=0.05)
    middle = rows[len(rows) // 4 : len(rows) // 2]
    rate = len(middle) / (middle[-1].arrival_ns - middle[0].arrival_ns) * 10**9
    assert rate == pytest.approx(8, rel=0.1)


def test_a_turn_repeats_all_before_it():
    rows = drawn("prompt=10 question=4 output=6 turns=3 think=2 requests=6 rate=0.001")
    assert [row.prompt for row in rows] == [10, 20, 30] * 2
    assert rows[1].spans == (*rows[0].spans, (rows[0].answer, 6), (("ask", 1), 4))
    assert [row.arrival_ns for row in rows[:3]] == [0, 2 * 10**9, 4 * 10**9]
    assert rows[2].answer is None  # nobody repeats the last answer


def test_without_a_rate_all_begin_at_once():
    assert {row.arrival_ns for row in drawn("prompt=10 output=5 requests=50")} == {0}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("output=5", "no prompt="),
        ("prompt=5 output=5 prompt=6", "given twice"),
        ("prompt=5 output=lognorm(1,2)", "lognorm"),
        ("prompt=5 output=exp(1,2)", "takes 1"),
        ("prompt=lognormal(5,99) output=1", "sigma"),
        ("prompt=-5 output=5", "no number above 0"),
        ("prompt=1e999 output=5", "no number above 0"),
        ("prompt=5 output=5 prefix=10@2", "above 1"),
        ("prompt=5 output=5 turns=1.5", "no whole number"),
        ("prompt=5 output=5 speed=2", "speed=2"),
        ("prompt", "not read"),
    ],
)
def test_what_is_not_read(text, says):
    with pytest.raises(UsageError, match=says):
        parse_load(text)


def test_a_long_stream_is_replayed_in_bounded_memory(monkeypatch):
    """Requests that come and go leave nothing behind: eight times as many take no more memory."""
    monkeypatch.setattr("kvplan.simulate.run.BATCH", 64)
    told = Settings(num_blocks=2001, max_num_seqs=64, max_model_len=4096, arrival="clock")

    def peak(requests: int) -> int:
        load = parse_load(f"prompt=64 output=3 rate=50 prefix=64@0.5 turns=2 think=1 requests={requests}")
        tracemalloc.start()
        result = simulate(synthesize(load, 0), told, Problems())
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert result.summary.finished == requests
        return most

    peak(200)  # what is imported and cached once
    few, many = peak(500), peak(4000)
    assert many < 1.5 * few
