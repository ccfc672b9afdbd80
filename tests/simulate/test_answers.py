"""Summaries, promises, answers and advice: figures of replays, and what is made of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import UsageError
from kvplan.simulate.advice import advise, suggested_length
from kvplan.simulate.answers import candidates, fleet
from kvplan.simulate.baselines import BASELINES, Scenario
from kvplan.simulate.deployment import Ask, deploy
from kvplan.simulate.promise import parse_promise
from kvplan.simulate.quantiles import Quantiles
from kvplan.simulate.request import Request
from kvplan.simulate.run import simulate
from kvplan.simulate.settings import Settings
from kvplan.simulate.sources import AtHand, Made, read_at_hand
from kvplan.simulate.summary import MAX_POINTS, Curve
from kvplan.simulate.synthetic import parse_load
from kvplan.simulate.tasks import Task, merged, replicas, run_task, run_tasks
from kvplan.simulate.trace.problems import Problems

TOLD = Settings(num_blocks=301, max_num_seqs=32, max_num_batched_tokens=512, max_model_len=4096, arrival="clock")
LOAD = Made(parse_load("prompt=exp(200) output=exp(60) rate=20 requests=150"), 3)


@given(st.lists(st.integers(0, 2**60), min_size=1), st.sampled_from([1, 50, 90, 99, 100]))
def test_percentiles_are_within_a_512th(values, percent):
    found = Quantiles()
    for value in values:
        found.add(value)
    exact = sorted(values)[max(0, -(-percent * len(values) // 100) - 1)]
    near = found.at(percent)
    assert near is not None
    assert near <= exact
    assert exact - near <= exact / 256


def test_quantiles_add_up():
    one, other = Quantiles(), Quantiles()
    one.add(5, 3)
    other.add(7)
    other.add(9)
    one.update(other)
    assert (one.at(60), one.at(61), one.largest()) == (5, 7, 9)
    assert (Quantiles().at(50), Quantiles().largest()) == (None, None)


def test_a_curve_stays_small():
    rows = []
    simulate(LOAD_REQUESTS, TOLD, Problems(), on_steps=[rows.extend])
    curve = Curve()
    for _ in range(4):
        curve.add(rows)
    curve.close()
    assert MAX_POINTS // 2 <= len(curve.points) <= MAX_POINTS
    assert sum(point.preempted for point in curve.points) == 4 * sum(row.preempted for row in rows)
    assert max(point.used_blocks for point in curve.points) == max(row.used_blocks for row in rows)


LOAD_REQUESTS = list(read_at_hand(LOAD, Problems()).requests)


def test_what_is_left_out_is_in_the_problems():
    problems = Problems()
    told = Settings(num_blocks=11, max_num_seqs=8, max_model_len=300)
    rows = [Request(0, 0, 300, 1), Request(1, 0, 200, 50), Request(2, 0, 20, 5)]
    result = simulate(rows, told, problems)
    assert result.summary.finished == 1
    assert {code: seen.first_row for code, seen in problems.seen.items()} == {"prompt_too_long": 0, "never_fits": 1}
    assert result.summary.longest_request == 301


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("ttft_p99=2s", [("ttft_p99", 2 * 10**9)]),
        ("itl_p99.9=50ms,preemptions=0", [("itl_p99.9", 50_000_000), ("preemptions", 0)]),
        ("queue_p50 = 10us, e2e_p95=1.5s", [("queue_p50", 10_000), ("e2e_p95", 1_500_000_000)]),
    ],
)
def test_promises(text, limits):
    assert [(limit.name, limit.most) for limit in parse_promise(text).limits] == limits


@pytest.mark.parametrize("text", ["", "ttft=2s", "ttft_p99", "itl_p99=2", "preemptions=1ms", "itl_p=1s"])
def test_promises_that_are_not_read(text):
    with pytest.raises(UsageError, match="--promise"):
        parse_promise(text)


def test_candidates_are_ranked_and_replicas_are_the_fewest():
    ask = Ask(None, {}, {"num_blocks": 301, "max_num_seqs": 32, "max_num_batched_tokens": 512, "max_model_len": 4096,
                         "arrival": "clock"})  # fmt: skip
    base, promise = deploy(ask), parse_promise("ttft_p99=400ms,preemptions=0")
    found = candidates(ask, base, promise, LOAD, run_tasks)
    assert {one.changes["max_num_seqs"] for one in found} == {8, 16, 32, 64, 128, 256}
    assert [one.kept for one in found] == sorted((one.kept for one in found), reverse=True)
    assert all(first.excess <= second.excess for first, second in pairwise(found) if not first.kept)
    best = found[0]
    answer = fleet(best, promise, LOAD, run_tasks)
    assert answer.count is not None
    assert promise.kept(answer.result)
    fewer = answer.count - 1
    if fewer:
        scenario = Scenario("", best.deployment.settings)
        assert not promise.kept(merged(run_tasks(replicas(scenario, LOAD, fewer)), ""))
    assert fleet(best, parse_promise("ttft_p50=1ns"), LOAD, run_tasks).count is None


def test_advice_comes_in_the_order_of_a_practitioner():
    ask = Ask(None, {}, {"num_blocks": 301, "max_num_seqs": 64, "max_num_batched_tokens": 512, "max_model_len": 4096,
                         "arrival": "clock"})  # fmt: skip
    heavy = Made(parse_load("prompt=exp(300) output=exp(200) rate=40 requests=150"), 3)
    base = deploy(ask)
    result = run_task(Task(Scenario("", base.settings), heavy))
    codes = [one.code for one in advise(base, result)]
    order = ["lengths", "utilisation", "batched_tokens", "preemptions", "kv_dtype", "tensor_parallel", "scale_out"]
    assert codes == [code for code in order if code in codes]
    assert {"preemptions", "scale_out"} <= set(codes)
    idle = run_task(Task(Scenario("", base.settings), AtHand((Request(0, 0, 10, 2),), Problems())))
    assert [one.code for one in advise(base, idle)] == ["lengths", "utilisation"]


def test_suggested_lengths_hold_the_trace():
    result = run_task(Task(Scenario("", TOLD), LOAD))
    longest = max(row.prompt + row.output for row in LOAD_REQUESTS)
    assert suggested_length(result) == -(-longest // 1024) * 1024
    assert suggested_length(result, 50) <= suggested_length(result)


def test_the_same_wherever_it_runs():
    tasks = [Task(scenario, LOAD) for make in BASELINES.values() for scenario in make(TOLD)]
    here, there = run_tasks(tasks, workers=1), run_tasks(tasks, workers=2)
    assert [one.summary.totals() for one in here] == [one.summary.totals() for one in there]
    assert [one.curve for one in here] == [one.curve for one in there]
    assert {one.outcome for one in here} == {"complete"}


def test_replicas_share_a_load():
    whole = run_task(Task(Scenario("", TOLD), LOAD))
    parts = run_tasks(replicas(Scenario("", TOLD), LOAD, 3), workers=1)
    assert [part.summary.requests for part in parts] == [50, 50, 50]
    both = merged(parts, "three")
    assert both.summary.output_tokens == whole.summary.output_tokens
    assert (both.summary.ttft_ns.at(99) or 0) < (whole.summary.ttft_ns.at(99) or 0)


def test_on_a_local_ray_cluster():
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    tasks = replicas(Scenario("", TOLD), read_at_hand(LOAD, Problems()), 2)
    here, there = run_tasks(tasks, workers=1), run_tasks(tasks, ray="local")
    assert [one.summary.totals() for one in here] == [one.summary.totals() for one in there]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999", "nobody"])
def test_a_cluster_that_is_not_there(address):
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    ray.shutdown()
    with pytest.raises(UsageError, match="no Ray cluster answers"):
        run_tasks([Task(Scenario("", TOLD), LOAD)], ray=address)


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("kvplan.simulate.tasks.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="Ray"):
        run_tasks([Task(Scenario("", TOLD), LOAD)], ray="local")
