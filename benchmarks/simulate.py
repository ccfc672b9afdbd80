"""Replays against vLLM's own scheduler: requests a CPU second on the rows of the published replays.

    python benchmarks/simulate.py DATA [--stream 10000000]

DATA is the folder with `scheduler/` (settings, and both series of the engine's own replay) and `traces/`; without it,
only the stream is run. Counted is the replay alone, in CPU seconds, the best of several: no reading of the trace, no
writing of CSV. vLLM's own figures were measured on the same rows without recording: 300 to 370 requests a CPU second
on the Azure trace, 125 on Mooncake's conversations with caching. A series that differs from the engine's ends the run.
"""

from __future__ import annotations

import argparse
import cProfile
import gzip
import json
import pstats
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kvplan.simulate.engine import run_steps
from kvplan.simulate.event import run_events, runs_events
from kvplan.simulate.replay import Job, jobs
from kvplan.simulate.run import simulate
from kvplan.simulate.series import RequestRow, StepRow, header, line
from kvplan.simulate.settings import Selection, Settings, read_settings
from kvplan.simulate.synthetic import parse_load, synthesize
from kvplan.simulate.trace import read_trace, select
from kvplan.simulate.trace.layout import Layout
from kvplan.simulate.trace.problems import Problems

TRACES = {
    "azure_conv": ("azure_llm_2023_conv.csv", 370),
    "moon_conv": ("mooncake_fast25_conversation.jsonl", 125),
}
TIMES = 5
STREAM = "prompt=lognormal(200,0.6) output=exp(4) rate=150 prefix=512@0.5 turns=2 think=5 requests={}"
_Run = Callable[..., object]


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--stream", type=int, default=0, help="synthetic requests to stream")
    parser.add_argument("--step-by-step", action="store_true", help="time the step-by-step engine, too")
    parser.add_argument("--profile", action="store_true", help="show where the time of a tight pool goes")
    options = parser.parse_args()
    if options.data:
        goldens(options.data, step_by_step=options.step_by_step)
        whole_trace(options.data)
    if options.data and options.profile:
        profile(options.data)
    if options.stream:
        stream(options.stream)


def goldens(data: Path, *, step_by_step: bool) -> None:
    """Time every published replay, and hold both series to it."""
    print(f"{'replay':34}{'requests':>9}{'steps':>8}{'CPU s':>8}{'requests/s':>12}{'x vLLM':>8}  engine")
    for path in sorted((data / "scheduler").glob("*.json")):
        if path.name.startswith("micro"):
            continue
        settings, todo, vllm = load(data, path)
        engines: list[_Run] = [run_events] if runs_events(settings) else []
        engines += [run_steps] if step_by_step or not engines else []
        for run in engines:
            seconds, steps, requests = best(run, todo, settings)
            same(path, steps, requests)
            rate = len(todo) / seconds
            kind = "event" if run is run_events else "step by step"
            print(
                f"{path.stem:34}{len(todo):>9,}{len(steps):>8,}{seconds:>8.3f}{rate:>12,.0f}{rate / vllm:>8.1f}  {kind}"
            )


def load(data: Path, golden: Path) -> tuple[Settings, list[Job], int]:
    """Return a replay's settings, its jobs, and what vLLM's own scheduler does a CPU second."""
    told = json.loads(golden.read_text(encoding="utf-8"))["settings"]
    settings, rows = read_settings(told)
    name, vllm = TRACES[told["trace"]]
    problems = Problems()
    trace = read_trace(str(data / "traces" / name), Layout(), problems)
    return settings, list(jobs(select(trace, rows), settings, problems)), vllm


def best(run: _Run, todo: Sequence[Job], settings: Settings) -> tuple[float, list[StepRow], list[RequestRow]]:
    """Return the least CPU seconds of several runs, and the series."""
    seconds = float("inf")
    steps: list[StepRow] = []
    requests: list[RequestRow] = []
    for _ in range(TIMES if run is run_events else 1):
        steps, requests = [], []
        start = time.process_time()
        run(todo, settings, steps.append, lambda row, _, to=requests: to.append(row))
        seconds = min(seconds, time.process_time() - start)
    return seconds, steps, sorted(requests)


def same(golden: Path, steps: Sequence[StepRow], requests: Sequence[RequestRow]) -> None:
    """End the run where a series differs from the engine's own."""
    for name, kind, rows in (("steps", StepRow, steps), ("reqs", RequestRow, requests)):
        want = gzip.decompress(golden.with_name(f"{golden.stem}.{name}.csv.gz").read_bytes()).decode()
        if header(kind) + "".join(map(line, rows)) != want:
            raise SystemExit(f"{golden.stem}: {name} differ")


def whole_trace(data: Path) -> None:
    """Replay all of the Azure trace against a tight pool, totals and percentiles included."""
    settings = Settings(num_blocks=6001, max_num_seqs=256)
    problems = Problems()
    rows = list(select(read_trace(str(data / "traces" / TRACES["azure_conv"][0]), Layout(), problems), Selection()))
    start = time.process_time()
    result = simulate(rows, settings, problems)
    seconds = time.process_time() - start
    print(
        f"whole Azure trace, tight pool: {result.summary.finished:,} requests, {result.summary.steps:,} steps,"
        f" {result.summary.preemptions:,} preemptions in {seconds:.2f} CPU s, {peak_mb():.0f} MB"
    )


def profile(data: Path) -> None:
    """Show where the time goes."""
    settings, todo, _ = load(data, data / "scheduler" / "conv_all_tight.json")
    watched = cProfile.Profile()
    steps: list[StepRow] = []
    watched.runcall(run_events, todo, settings, steps.append, lambda *_: None)
    pstats.Stats(watched).sort_stats("tottime").print_stats(12)


def stream(requests: int) -> None:
    """Replay so many synthetic requests, made as they come, and print the memory on the way."""
    settings = replace(Settings(num_blocks=20_001, max_num_seqs=256, max_model_len=32_768), arrival="clock")
    before = peak_mb()
    for part in (requests // 100, requests):
        start = time.process_time()
        result = simulate(synthesize(parse_load(STREAM.format(part)), 0), settings, Problems())
        seconds = time.process_time() - start
        print(
            f"stream of {result.summary.finished:,} synthetic requests: {seconds:,.0f} CPU s"
            f" ({result.summary.finished / seconds:,.0f} a second, made and summed up), {peak_mb():.0f} MB"
            f" ({before:.0f} before)"
        )


def peak_mb() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
