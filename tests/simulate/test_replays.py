"""Whole replays by vLLM 0.33's own scheduler: random small loads here, the published traces where they are at hand.

golden/replays.jsonl holds a replay a line, one for each mix of KV groups, asynchronous scheduling and policy: the
settings, the requests ([arrival, spans, source of the answer, tokens to produce, priority, salt]) and the steps in the
order of `COLUMNS`. Groups are windows, null is full attention.
"""

from __future__ import annotations

import gzip
import json
import os
from itertools import starmap
from pathlib import Path
from typing import Any

import pytest

from kvplan.simulate.engine import run_steps
from kvplan.simulate.event import run_events, runs_events
from kvplan.simulate.replay import Job, jobs
from kvplan.simulate.request import Request
from kvplan.simulate.series import RequestRow, StepRow, Timing, header, line
from kvplan.simulate.settings import Settings, read_settings
from kvplan.simulate.summary import Summary
from kvplan.simulate.trace import read_trace, select
from kvplan.simulate.trace.layout import Layout
from kvplan.simulate.trace.problems import Problems

REPLAYS = [json.loads(text) for text in (Path(__file__).parent / "golden/replays.jsonl").open(encoding="utf-8")]
COLUMNS = (
    "step", "t_ns", "arrived", "running", "waiting", "scheduled_reqs", "prefill_tokens", "decode_tokens", "preempted",
    "used_blocks", "cached_hashes", "evicted", "hit_queried", "hit_tokens", "pre_queried", "pre_hit", "finished",
    "used_blocks_end", "kv_read_tokens", "dur_ns",
)  # fmt: skip
CORPUS = Path(os.environ.get("KVPLAN_CORPUS", ""), "data")
GOLDENS = sorted(path for path in (CORPUS / "scheduler").glob("*.json") if not path.name.startswith("micro"))
TRACES = {"azure_conv": "azure_llm_2023_conv.csv", "moon_conv": "mooncake_fast25_conversation.jsonl"}


def job(seq: int, request: list[Any]) -> Job:
    arrival, spans, answer, max_tokens, priority, salt = request
    prompt = sum(tokens for _, tokens in spans)
    named = tuple((source, tokens) for source, tokens in spans)
    return Job(seq, 0, Request(seq, arrival, prompt, max_tokens, named, answer, priority, salt), max_tokens)


@pytest.mark.parametrize("replay", REPLAYS, ids=[str(index) for index in range(len(REPLAYS))])
def test_as_vllm(replay: dict[str, Any]):
    told = replay["settings"]
    settings = Settings(**{**told, "groups": tuple(told["groups"])}, arrival="clock")
    todo = list(starmap(job, enumerate(replay["requests"])))
    for run in [run_steps, *([run_events] if runs_events(settings) else [])]:
        rows: list[StepRow] = []
        assert run(todo, settings, rows.append, lambda *_: None) == "complete"
        assert [[getattr(row, column) for column in COLUMNS] for row in rows] == replay["steps"]


def test_replays_cover_what_is_hard():
    told = [replay["settings"] for replay in REPLAYS]
    assert {one["async_scheduling"] for one in told} == {False, True}
    assert {one["policy"] for one in told} == {"fcfs", "priority"}
    assert any(len(one["groups"]) > 2 for one in told)
    assert sum(row[COLUMNS.index("preempted")] for replay in REPLAYS for row in replay["steps"]) > 20


@pytest.mark.skipif(not GOLDENS, reason="KVPLAN_CORPUS is not set")
@pytest.mark.parametrize("golden", GOLDENS, ids=lambda path: path.stem)
def test_golden(golden: Path):
    """Both series of a published replay, byte for byte, and its totals."""
    told = json.loads(golden.read_text(encoding="utf-8"))
    settings, rows = read_settings(told["settings"])
    trace = CORPUS / "traces" / TRACES[told["settings"]["trace"]]
    problems = Problems()
    todo = list(jobs(select(read_trace(str(trace), Layout(), problems), rows), settings, problems))
    run = run_events if runs_events(settings) else run_steps
    steps: list[StepRow] = []
    requests: list[tuple[RequestRow, Timing]] = []
    run(todo, settings, steps.append, lambda row, timing: requests.append((row, timing)))
    for name, kind, series in (("steps", StepRow, steps), ("reqs", RequestRow, sorted(row for row, _ in requests))):
        want = gzip.decompress(golden.with_name(f"{golden.stem}.{name}.csv.gz").read_bytes()).decode()
        assert header(kind) + "".join(map(line, series)) == want
    summary = Summary()
    summary.add_steps(steps, settings.max_num_batched_tokens)
    summary.add_requests(requests)
    totals = {name: value for name, value in summary.totals().items() if name in told["totals"]}
    assert len(totals) > 20
    assert totals == {name: told["totals"][name] for name in totals}
