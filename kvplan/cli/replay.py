"""What `kvplan simulate` does with its options: read, replay, compare, answer, write."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from kvplan.errors import NO, OK, UsageError, near
from kvplan.simulate.advice import advise
from kvplan.simulate.answers import Candidate, Fleet, candidates, fleet
from kvplan.simulate.baselines import BASELINES, Chat, Reclaim, Scenario, chat, reclaim
from kvplan.simulate.clock import PS, Clock
from kvplan.simulate.deployment import Ask, Deployment, changed, deploy, parse_changes
from kvplan.simulate.promise import parse_promise
from kvplan.simulate.run import RequestBatch, Result, StepBatch, simulate
from kvplan.simulate.series import RequestRow, Timing
from kvplan.simulate.settings import Selection, read_settings
from kvplan.simulate.sinks import Kept, RequestLines, StepLines, written
from kvplan.simulate.sources import Made, Source, TraceFile, open_source, read_at_hand
from kvplan.simulate.step_model import swap_cost
from kvplan.simulate.synthetic import parse_load
from kvplan.simulate.tasks import Task, merged, replicas, run_tasks
from kvplan.simulate.trace.layout import Layout, check_unit, parse_columns
from kvplan.simulate.trace.problems import Problems

_INTERRUPTED = 130
_FLAGS = (
    "gpu", "engine", "tensor_parallel_size", "pipeline_parallel_size", "gpu_memory_utilization", "max_model_len",
    "max_num_seqs", "max_num_batched_tokens", "kv_cache_dtype", "kv_cache_memory_bytes", "num_gpu_blocks_override",
    "block_size", "dtype", "quantization", "enforce_eager", "enable_prefix_caching", "async_scheduling",
)  # fmt: skip
_OWN = ("arrival", "speed", "n", "policy", "watermark", "long_prefill_token_threshold")
_Words = Mapping[str, Any]


def replay(words: _Words) -> int:
    """Run the command; `words` are its options by name. Returns the exit code."""
    from kvplan.render.simulate import Report

    promise = None if words["promise"] is None else parse_promise(words["promise"])
    if words["plot"] is not None:
        from kvplan.render.simulate_plot import check_plot

        check_plot(words["plot"])
    ask, selection = _ask(words)
    deployment = deploy(ask)
    scenarios = _scenarios(words["compare"] or (), ask, deployment)
    source = _source(words, selection)
    if words["ray"] or (words["trace"] == "-" and (scenarios or promise or words["replicas"] > 1)):
        source = read_at_hand(source, Problems(words["strict"]))
    kept = Kept() if words["output"] == "json" else None
    result = _main(words, deployment, source, kept)
    others: list[Result] = []
    tried: list[Candidate] = []
    found: Fleet | None = None
    if result.outcome != "interrupted":

        def run_all(tasks: Sequence[Task]) -> list[Result]:
            return run_tasks(tasks, workers=words["workers"], ray=words["ray"])

        others = run_all([Task(scenario, source) for scenario in scenarios])
        if promise is not None:
            tried = candidates(ask, deployment, promise, source, run_all)
            found = fleet(tried[0], promise, source, run_all)
    report = Report(
        trace=words["trace"] or "synthetic",
        deployment=deployment,
        result=result,
        replicas=words["replicas"],
        compared=others,
        advice=advise(deployment, result),
        promise=promise,
        candidates=tried,
        fleet=found,
        chat=_chat(source),
        reclaim=_reclaim(deployment, result),
    )
    _write(words, report, kept)
    if result.outcome == "interrupted":
        return _INTERRUPTED
    return OK if result.outcome == "complete" and (found is None or found.count is not None) else NO


def _ask(words: _Words) -> tuple[Ask, Selection]:
    """Return what is to be simulated, and which rows of the trace."""
    flags = {name: words[name] for name in _FLAGS if words[name] is not None}
    own = {name: _plain(words[name]) for name in _OWN if words[name] is not None}
    selection = Selection()
    if words["settings"] is not None:
        if words["model"] is not None:
            raise UsageError("a MODEL and --settings both say what the pool is", "give one of them")
        from kvplan.sources.document import read_object

        told = read_object(words["settings"])
        told = told["settings"] if isinstance(told.get("settings"), dict) else told
        _, selection = read_settings(told)
        own = {**told, **own}
    elif words["model"] is None and "num_gpu_blocks_override" not in flags:
        raise UsageError(
            "nothing says what the pool is", "a MODEL and --gpu, --settings FILE, or --num-gpu-blocks-override N"
        )
    if words["model"] is None:
        spec = None
    else:
        from kvplan.planner import load_model

        spec = load_model(words["model"], revision=words["revision"])
        own.setdefault("arrival", "clock")
    if words["settings"] is None:
        own.setdefault("arrival", "clock")
    if words["rows"] is not None:
        selection = _rows(words["rows"])
    return Ask(spec, flags, own, _clock(words["clock"]), _bandwidth(words["bandwidth"])), selection


def _source(words: _Words, selection: Selection) -> Source:
    if (words["trace"] is None) == (words["synthetic"] is None):
        raise UsageError("one load is simulated", "--trace FILE, or --synthetic 'prompt=… output=… rate=…'")
    if words["synthetic"] is not None:
        return Made(parse_load(words["synthetic"]), words["seed"])
    chars = words["chars_per_token"]
    if chars is not None and not 0.1 <= chars <= 100:
        raise UsageError(f"--chars-per-token {chars:g} is no number of characters", "English text has about 4")
    layout = Layout(
        columns={} if words["columns"] is None else parse_columns(words["columns"]),
        unit=None if words["time_unit"] is None else check_unit(words["time_unit"]),
        tokenizer=words["tokenizer"],
        chars_per_token=chars,
    )
    return TraceFile(words["trace"], layout, selection)


def _main(words: _Words, deployment: Deployment, source: Source, kept: Kept | None) -> Result:
    """Replay the deployment itself, with its rows where they are asked for; several engines have none together."""
    scenario = Scenario("", deployment.settings)
    count = words["replicas"]
    if count > 1 or words["ray"]:
        if words["steps"] or words["requests"] or words["output"] == "csv":
            raise UsageError("the series are of one engine, here", "leave --replicas and --ray out")
        results = run_tasks(
            replicas(scenario, source, count, strict=words["strict"]), workers=words["workers"], ray=words["ray"]
        )
        return merged(results, "")
    problems = Problems(words["strict"])
    with ExitStack() as stack:
        on_steps: list[StepBatch] = []
        on_requests: list[RequestBatch] = []
        steps = stack.enter_context(written(words["steps"], "--steps"))
        requests = stack.enter_context(written(words["requests"], "--requests"))
        if steps is not None:
            on_steps.append(StepLines(steps))
        if words["output"] == "csv":
            on_steps.append(StepLines(sys.stdout))
        if kept is not None:
            on_steps.append(kept.steps)
            on_requests.append(kept.requests)
        if requests is not None:
            lines = RequestLines(requests)
            stack.callback(lines.close)
            on_requests.append(lines)
        on_requests.append(stack.enter_context(_progress()))
        requests_in = open_source(source, problems)
        return simulate(requests_in, deployment.settings, problems, on_steps=on_steps, on_requests=on_requests)


@contextmanager
def _progress() -> Iterator[RequestBatch]:
    """Count finished requests on a terminal, on stderr; a run of a second shows nothing."""
    if not sys.stderr.isatty():
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} requests, {task.fields[now]:,.0f} s on their clock"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=None, now=0.0)

        def count(rows: Sequence[tuple[RequestRow, Timing]]) -> None:
            progress.update(bar, advance=len(rows), now=(rows[-1][0].finish_ns or 0) / 10**9)

        yield count


def _scenarios(asked: Sequence[str], ask: Ask, deployment: Deployment) -> list[Scenario]:
    """Return what is compared: baselines by name, and other values."""
    found: list[Scenario] = []
    for text in asked:
        if text in BASELINES:
            found += BASELINES[text](deployment.settings)
        elif "=" in text:
            found.append(Scenario(text, deploy(changed(ask, parse_changes(text))).settings))
        else:
            hint = near(text, BASELINES) or f"NAME=VALUE,… or one of {', '.join(BASELINES)}"
            raise UsageError(f"--compare: no baseline {text[:40]!r}", hint)
    return found


def _write(words: _Words, report: Any, kept: Kept | None) -> None:
    from kvplan.cli.output import write_json, write_lines
    from kvplan.render.simulate import report_object
    from kvplan.render.simulate_text import report_text

    if words["plot"] is not None:
        from kvplan.render.simulate_plot import write_plot

        write_plot(report, words["plot"])
    if kept is not None:
        series = kept.object() if words["replicas"] == 1 and not words["ray"] else None
        write_json(report_object(report, series))
    elif words["output"] == "text":
        write_lines(report_text(report))


def _chat(source: Source) -> Chat | None:
    """Return the figures of a chat, where the load is one of fixed lengths."""
    if not isinstance(source, Made) or source.load.turns == 1:
        return None
    load = source.load
    draws = (load.prompt, load.question, load.output)
    if any(draw.kind != "constant" for draw in draws) or load.prefix_tokens:
        return None
    first, question, answer = (round(draw.values[0]) for draw in draws)
    return chat(first, question, answer, load.turns)


def _reclaim(deployment: Deployment, result: Result) -> Reclaim | None:
    """Return what a preempted request costs on average, computed again or moved, where a card's link is known."""
    summary = result.summary
    if not summary.preemptions or deployment.plan is None:
        return None
    cost = swap_cost(deployment.plan)
    if cost is None:
        return None
    tokens = summary.resumed_queried_tokens // summary.preemptions
    again = (summary.resumed_queried_tokens - summary.resumed_hit_tokens) // summary.preemptions
    return reclaim(tokens, again, deployment.settings.clock.token_ps / PS, cost)


def _plain(value: Any) -> Any:
    return value.value if hasattr(value, "value") else value


def _rows(text: str) -> Selection:
    first, colon, count = text.partition(":")
    parts = (first, count) if colon else (first, "")
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts if part):
        raise UsageError(f"--rows {text[:40]!r} is not read", "FIRST:COUNT, from 0: 0:1000 are the first thousand")
    return Selection(int(first or 0), int(count) if count else None)


def _clock(text: str | None) -> Clock | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise UsageError(f"--clock {text[:40]!r} is not read", "three whole numbers of nanoseconds: 5000000,25000,40")
    return Clock(*(int(part) * PS for part in parts))


def _bandwidth(text: str | None) -> int | None:
    if text is None:
        return None
    from kvplan.units import parse_bytes

    return parse_bytes(text.removesuffix("/s"), "--bandwidth")
