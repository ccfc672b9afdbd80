"""Summaries, promises, answers and advice: figures of replays, and what is made of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import UsageError
from kvplan.simulate.advice import proposals, suggested_length
from kvplan.simulate.answers import candidates, fleet
from kvplan.simulate.baselines import BASELINES, Scenario
from kvplan.simulate.deployment import Ask, changed, deploy
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
from kvplan.simulate.trials import Trial, advise, outcome

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


HEAVY = Made(parse_load("prompt=exp(300) output=exp(200) rate=40 requests=150"), 3)


def trial(source, **own) -> Trial:
    ask = Ask(None, {}, {"num_blocks": 301, "max_num_seqs": 64, "max_num_batched_tokens": 512, "max_model_len": 4096,
                         "arrival": "clock", **own})  # fmt: skip
    base = deploy(ask)
    return Trial(ask, base, run_task(Task(Scenario("", base.settings), source)), source, run_tasks)


def test_proposals_come_in_the_order_of_a_practitioner():
    heavy = trial(HEAVY)
    codes = [one.code for one in proposals(heavy.deployment, heavy.result)]
    order = ["lengths", "utilisation", "batched_tokens", "preemptions", "kv_dtype", "tensor_parallel", "scale_out"]
    assert codes == [code for code in order if code in codes]
    assert {"preemptions", "scale_out"} <= set(codes)
    idle = trial(AtHand((Request(0, 0, 10, 2),), Problems()))
    assert [one.code for one in advise(idle)] == ["lengths", "utilisation"]


@pytest.mark.parametrize("own", [{}, {"max_num_seqs": 4}, {"num_blocks": 3001}, {"max_model_len": 600}])
def test_advice_is_what_its_replay_shows(own):
    """Each change, replayed by hand, comes to the figures that the advice names, and is better in one of them."""
    asked = trial(HEAVY, **own)
    found = advise(asked)
    assert len({one.flags.split()[0] for one in found if one.flags}) == sum(bool(one.flags) for one in found)
    for one in found:
        if not one.flags:
            continue
        name, value = one.flags.removeprefix("--").split()
        key, number = name.replace("-", "_"), int(value)
        settings = asked.deployment.settings
        if key != "replicas":
            settings = deploy(changed(asked.ask, {key: number})).settings
        again = merged(run_tasks(replicas(Scenario("", settings), HEAVY, number if key == "replicas" else 1)), "")
        assert one.replayed is not None
        old, new = one.replayed.before, one.replayed.after
        assert (old, new) == (outcome(asked.result), outcome(again))
        assert (new.finished, -new.preemptions, -new.queue_p99_ns) != (
            old.finished,
            -old.preemptions,
            -old.queue_p99_ns,
        )
        if new.finished == old.finished:
            assert new.queue_p99_ns <= old.queue_p99_ns * 1.02
            assert new.tokens_per_s >= old.tokens_per_s * 0.98


def test_where_sequences_are_the_limit_more_of_them_are_proposed():
    few = next(one for one in advise(trial(HEAVY, max_num_seqs=4)) if one.code == "sequences")
    assert few.why.startswith("sequences limit this load: 4 of 4 ran while up to ")
    assert few.flags.startswith("--max-num-seqs ")
    assert int(few.flags.split()[1]) > 4
    assert few.replayed is not None
    assert few.replayed.after.queue_p99_ns < few.replayed.before.queue_p99_ns


def test_a_long_load_is_not_replayed_again(monkeypatch):
    monkeypatch.setattr("kvplan.simulate.trials._SHORT", 0)
    found = advise(replace(trial(HEAVY), run=lambda _: pytest.fail("replayed")))
    assert [one for one in found if one.replayed is not None] == []
    assert "" in [one.flags for one in found if one.code == "preemptions"]


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
