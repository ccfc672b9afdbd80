"""Figures in, verdict out: one row a case, each threshold crossed and not crossed."""

from __future__ import annotations

import pytest
from metrics.scrapes import sglang, vllm, vllm_old

from kvplan.errors import UnreadableInput, UsageError
from kvplan.metrics import audit_metrics
from kvplan.metrics.dialect import dialects, thresholds
from kvplan.render.metrics import metrics_object, metrics_text
from kvplan.schemas import SCHEMAS

EFFECTIVE = """sglang:prefill_effective_tokens_total{mode="device_hit",tp_rank="0"} 300
sglang:prefill_effective_tokens_total{mode="host_hit",tp_rank="0"} 100
sglang:prefill_effective_tokens_total{mode="input",tp_rank="0"} 600"""
REALTIME = """sglang:realtime_tokens_total{mode="prefill_cache"} 200
sglang:realtime_tokens_total{mode="prefill_compute"} 800
sglang:realtime_tokens_total{mode="decode"} 9e9"""


@pytest.fixture
def audit(tmp_path):
    def run(*texts: str, **options):
        paths = []
        for number, text in enumerate(texts):
            path = tmp_path / f"{number}.prom"
            path.write_text(text, encoding="utf-8")
            paths.append(str(path))
        return audit_metrics(paths, **options)

    return run


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (vllm(running=48, waiting=12, usage=0.97), "saturated"),
        (vllm(running=48, waiting=1, usage=0.9), "saturated"),
        (vllm(running=48, waiting=0, usage=0.97), "tight"),
        (vllm(running=48, waiting=3, usage=0.85), "tight"),
        (vllm(running=48, waiting=12, usage=0.97, preemptions=11), "over_admission"),
        (vllm(running=48, waiting=12, usage=0.97, preemptions=10), "saturated"),
        (vllm(running=48, waiting=12, usage=0.3, preemptions=900), "scheduler_limit"),
        (vllm(running=64, waiting=5, usage=0.79), "scheduler_limit"),
        (vllm(running=64, waiting=4, usage=0.79), "busy"),
        (vllm(running=20, waiting=0, usage=0.5), "busy"),
        (vllm(running=20, waiting=0, usage=0.49), "room"),
        (vllm(running=0, waiting=0, usage=0.0), "idle"),
        (vllm(running=48, waiting=12, usage="NaN"), "unclear"),
        (vllm(running=48, waiting=12, usage=97.0), "unclear"),
        (vllm(running=48, waiting=12, usage=1.0000000000000002), "saturated"),
        (vllm_old(running=48, waiting=12, usage=0.99), "saturated"),
        (vllm_old(running=48, waiting=12, usage=0.2), "scheduler_limit"),
        (vllm(running=48, waiting=12, usage=0.97).replace("vllm:", "ray_vllm_"), "saturated"),
        (vllm(running=48, waiting=12, usage=0.97).replace("vllm:", "vllm_"), "saturated"),
        (sglang(running=90, waiting=7, usage=0.98), "saturated"),
        (sglang(running=90, waiting=7, usage=0.4), "scheduler_limit"),
        (sglang(running=90, waiting=7, usage=0.98, retracted=6), "over_admission"),
        (sglang(running=90, waiting=7, usage=0.98, retracted=5), "saturated"),
        (
            "trtllm_num_requests_running 4\ntrtllm_num_requests_waiting 9\ntrtllm_kv_cache_utilization 0.95\n",
            "saturated",
        ),
    ],
)
def test_the_verdict_on_one_snapshot(audit, text, verdict):
    report = audit(text)
    assert report.verdict == verdict
    assert report.findings[0].code == verdict
    assert report.findings[0].evidence or verdict in ("idle", "unclear")


def test_every_rank_repeats_the_scheduler_and_is_counted_once(audit):
    (state,) = audit(sglang(running=90, waiting=7, usage=0.98, ranks=8)).server.states
    assert (state.running, state.waiting, state.usage) == (90, 7, 0.98)


def test_a_gauge_of_the_last_batch_is_no_count(audit):
    """sglang:num_retracted_reqs differs by one word from the counter, and holds 3 here."""
    assert audit(sglang(running=9, waiting=0, usage=0.9, retracted=0)).flow.preemptions == 0


def test_a_counter_that_is_written_twice_is_read_once(audit):
    text = vllm(preemptions=50) + 'vllm:num_preemptions{engine="0",model_name="meta-llama/Llama-3.1-8B"} 50\n'
    assert audit(text).flow.preemptions == 50


def test_parts_of_a_counter_add_up(audit):
    assert audit(vllm(finished=1234)).flow.finished == 1234


def test_two_snapshots_give_rates_by_the_minute(audit):
    first, last = (
        vllm(usage=0.97, waiting=9, preemptions=100),
        vllm(usage=0.97, waiting=9, preemptions=119, finished=1109),
    )
    report = audit(first, last, interval=60)
    assert report.verdict == "over_admission"
    assert (report.flow.preemptions, report.flow.finished, report.flow.preemptions_a_minute) == (19, 109, 19.0)
    assert audit(first, vllm(usage=0.97, waiting=9, preemptions=101), interval=60).verdict == "saturated"


def test_old_preemptions_are_no_trouble_of_today(audit):
    before = vllm(usage=0.95, waiting=9, preemptions=900)
    assert audit(before).verdict == "over_admission"
    assert (
        audit(before, vllm(usage=0.95, waiting=9, preemptions=900, finished=1500), interval=60).verdict == "saturated"
    )


@pytest.mark.parametrize(
    ("last", "verdict", "evidence"),
    [
        ({"preemptions": 1000, "finished": 1000}, "over_admission", "900 preemptions, and no request finished"),
        ({"preemptions": 102, "finished": 1000}, "over_admission", "2 preemptions, and no request finished"),
        ({"preemptions": 101, "finished": 1000}, "tight", ""),  # the odd one
        ({"preemptions": 100, "finished": 1000}, "tight", ""),
        ({"preemptions": 102, "finished": 1100}, "over_admission", "0.020 preemptions a finished request, above 0.01"),
        ({"preemptions": 101, "finished": 1100}, "tight", ""),
    ],
)
def test_preemptions_where_few_or_none_finish(audit, last, verdict, evidence):
    report = audit(vllm(usage=0.92, preemptions=100, finished=1000), vllm(usage=0.92, **last))
    assert report.verdict == verdict
    assert evidence in report.findings[0].evidence or not evidence
    assert report.trouble == (verdict == "over_admission")


def test_a_server_that_has_finished_nothing_since_its_start(audit):
    assert audit(vllm(usage=0.92, preemptions=900, finished=0)).verdict == "over_admission"
    assert audit(vllm(usage=0.92, preemptions=1, finished=0)).verdict == "tight"
    after = audit(vllm(preemptions=900, finished=5000), vllm(usage=0.92, preemptions=40, finished=0))
    assert (after.flow.restarted, after.verdict) == (True, "over_admission")


def test_preemptions_of_now_outweigh_what_the_gauge_reads_a_moment_later(audit):
    first, last = vllm(usage=0.99, preemptions=0), vllm(running=20, usage=0.4, preemptions=900)
    (found,) = audit(first, last, interval=60).findings
    assert (found.code, found.evidence[1]) == ("over_admission", "usage 40.0 %, now below 80.0 %")
    assert found.hint.startswith("lower --max-num-seqs, or")


def test_the_same_snapshot_twice_is_said(audit):
    report = audit(vllm(usage=0.92, preemptions=900), vllm(usage=0.92, preemptions=900))
    assert report.verdict == "tight"
    assert any("no counter moved" in line for line in metrics_text(report))
    moved = audit(vllm(preemptions=900), vllm(preemptions=900, finished=1001))
    assert not any("no counter moved" in line for line in metrics_text(moved))


def test_the_time_may_stand_in_the_scrapes(audit):
    def stamped(text: str, at: int) -> str:
        return "\n".join(f"{line} {at}" if line.startswith("vllm:") else line for line in text.splitlines())

    report = audit(stamped(vllm(preemptions=0), 1_760_000_000_000), stamped(vllm(preemptions=30), 1_760_000_030_000))
    assert report.flow.seconds == 30
    assert report.flow.preemptions_a_minute == 60


def test_without_a_time_rates_are_by_the_request(audit):
    report = audit(vllm(usage=0.95), vllm(usage=0.95, preemptions=5, finished=1100))
    assert report.flow.seconds is None
    assert report.flow.preemptions_a_request == 0.05
    assert any("--interval" in line for line in metrics_text(report))


def test_a_restart_between_the_snapshots_is_said(audit):
    report = audit(vllm(preemptions=900, finished=5000), vllm(preemptions=2, finished=40))
    assert report.flow.restarted
    assert (report.flow.preemptions, report.flow.finished) == (2, 40)
    assert any("went back" in line for line in metrics_text(report))


@pytest.mark.parametrize(
    ("hits", "queries", "codes"),
    [
        (0, 1_000_000, ["busy", "no_prefix_hits"]),
        (9_999, 1_000_000, ["busy", "no_prefix_hits"]),
        (10_000, 1_000_000, ["busy"]),
        (0, 99_999, ["busy"]),
        ("nan", 1_000_000, ["busy"]),
    ],
)
def test_a_prefix_cache_that_never_hits(audit, hits, queries, codes):
    assert [finding.code for finding in audit(vllm(hits=float(hits), queries=queries)).findings] == codes


def test_more_hits_than_queries_are_inconsistent_and_carry_no_verdict(audit):
    report = audit(vllm(hits=2.1e13, queries=9.1e6))
    assert (report.flow.hit_rate, [finding.code for finding in report.findings]) == (None, ["busy"])
    text = "\n".join(metrics_text(report))
    assert "%  of" not in text
    assert "inconsistent counters: 21,000,000,000,000 prefix hits of 9,100,000 tokens looked up; no verdict" in text
    assert metrics_object(report)["flow"]["inconsistent"] == list(report.flow.inconsistent)
    assert audit(vllm(hits=1.0, queries=0)).flow.inconsistent
    assert audit(vllm(hits=9.1e6, queries=9.1e6)).flow.hit_rate == 1


def test_hits_are_held_against_the_queries_between_the_snapshots(audit):
    report = audit(vllm(hits=100, queries=1_000_000), vllm(hits=200_100, queries=1_100_000), interval=60)
    assert report.flow.inconsistent == ("200,000 prefix hits of 100,000 tokens looked up",)


def test_the_gauge_of_a_hit_rate_does_not_stand_in_for_counters_that_contradict_each_other(audit):
    gauge = 'sglang:cache_hit_rate{model_name="m"} 0.001\n'
    counters = "sglang:cached_tokens_total 200000\nsglang:prompt_tokens_total 100000"
    report = audit(sglang(running=9, waiting=0, usage=0.6, prefill=gauge + counters))
    assert (report.flow.hit_rate, len(report.findings)) == (None, 1)


@pytest.mark.parametrize(
    ("prefill", "rate"),
    [
        ("", None),
        ('sglang:cache_hit_rate{model_name="m"} 0.25', 0.25),
        (EFFECTIVE, 0.4),
        (REALTIME, 0.2),
        ('sglang:cached_tokens_total{cache_source="device"} 10\nsglang:prompt_tokens_total 100', 0.1),
    ],
)
def test_the_hit_rate_by_each_release_of_sglang(audit, prefill, rate):
    assert audit(sglang(running=9, waiting=0, usage=0.6, prefill=prefill)).flow.hit_rate == rate


def test_a_prefix_cache_that_is_off_is_said(audit):
    report = audit(vllm().replace('enable_prefix_caching="True"', 'enable_prefix_caching="False"'))
    assert [finding.code for finding in report.findings] == ["busy", "prefix_cache_off"]


def test_the_hottest_replica_is_judged_and_an_uneven_load_named(audit):
    rows = [(0, 40, 20, 0.99), (1, 3, 0, 0.1)]
    text = "".join(
        f'vllm:num_requests_running{{engine="{e}"}} {r}\nvllm:num_requests_waiting{{engine="{e}"}} {w}\n'
        f'vllm:kv_cache_usage_perc{{engine="{e}"}} {u}\n'
        for e, r, w, u in rows
    )
    report = audit(text)
    assert [finding.code for finding in report.findings] == ["saturated", "uneven"]
    assert [state.replica for state in report.server.states] == ["engine 0", "engine 1"]
    assert any("99.0 %" in line and "engine 0" in line for line in metrics_text(report))


def test_requests_that_wait_for_an_adapter_do_not_wait_for_memory(audit):
    by_reason = 'vllm:num_requests_waiting_by_reason{engine="0",reason="%s"} %d\n'
    text = vllm(running=48, waiting=12, usage=0.3, extra=by_reason % ("deferred", 12) + by_reason % ("capacity", 0))
    assert audit(text).verdict == "room"


@pytest.mark.parametrize(
    ("limit", "hint"),
    [
        (None, "raise --max-num-seqs where 64 is its value, else --max-num-batched-tokens"),
        (64, "raise --max-num-seqs"),
        (256, "slots are free: --max-num-batched-tokens lets more prompt tokens in"),
    ],
)
def test_slots_or_batch(audit, limit, hint):
    assert audit(vllm(running=64, waiting=50, usage=0.3), max_num_seqs=limit).findings[0].hint == hint


def test_how_many_requests_the_pool_would_hold(audit):
    (over,) = audit(vllm(running=50, waiting=9, usage=1.0, preemptions=500)).findings
    assert over.hint.startswith("lower --max-num-seqs to about 45")
    (room,) = audit(vllm(running=10, usage=0.3)).findings
    assert room.hint == "about 30 such requests fit"


def test_histograms_only_are_read_as_far_as_they_go(audit):
    text = """vllm:request_queue_time_seconds_sum{model_name="q"} 900.0
vllm:request_queue_time_seconds_count{model_name="q"} 300.0
vllm:request_queue_time_seconds_bucket{model_name="q",le="+Inf"} 300.0
vllm:e2e_request_latency_seconds_count{model_name="q"} 300.0
vllm:request_num_preemptions_sum{model_name="q"} 0.0
"""
    report = audit(text)
    assert report.verdict == "unclear"
    assert report.findings[0].evidence == ("3.00 s in the queue on average",)
    assert "no cache usage and no waiting requests" in report.findings[0].message
    assert audit(text.replace('_sum{model_name="q"} 0.0', '_sum{model_name="q"} 90.0')).verdict == "over_admission"


@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        (["process_open_fds 45.0\n"], {}, UnreadableInput, "holds no metrics of SGLang, TensorRT-LLM, vLLM"),
        (["\n \n"], {}, UnreadableInput, "is empty"),
        (["<html><body>log in</body></html>"], {}, UnreadableInput, "is a web page"),
        (['{"status":"success","data":{"result":[]}}'], {}, UnreadableInput, "is JSON"),
        ([vllm() + sglang(running=1, waiting=0, usage=0.1)], {}, UnreadableInput, "metrics of SGLang and vLLM"),
        ([vllm(), sglang(running=1, waiting=0, usage=0.1)], {}, UsageError, "one snapshot is of vLLM"),
        ([vllm(), vllm().replace("Llama-3.1-8B", "other")], {}, UsageError, "the other of meta-llama/other"),
        ([vllm()], {"seconds": float("nan")}, UsageError, "--timeout takes seconds above 0"),
        ([vllm()], {"max_num_seqs": 0}, UsageError, "--max-num-seqs takes a whole number"),
        ([vllm()] * 3, {}, UsageError, "one snapshot or two, not 3"),
        ([vllm()] * 2, {"interval": 0.0}, UsageError, "--interval takes seconds above 0"),
        ([vllm()] * 2, {"interval": float("nan")}, UsageError, "--interval takes seconds above 0"),
    ],
)
def test_what_cannot_be_judged_is_refused(audit, texts, options, error, message):
    with pytest.raises(error, match=message):
        audit(*texts, **options)


def test_the_object_is_as_its_schema_says(audit):
    for text in (vllm(), vllm_old(running=1, waiting=0, usage="NaN"), sglang(running=1, waiting=0, usage=0.2, ranks=2)):
        SCHEMAS["metrics"].model_validate(metrics_object(audit(text)))


def test_every_threshold_and_engine_names_its_source():
    assert all(limit.source for limit in thresholds().values())
    assert {dialect.engine for dialect in dialects()} == {"vllm", "sglang", "tensorrt-llm"}
    assert all(dialect.figures["running"] and dialect.figures["usage"] for dialect in dialects())
