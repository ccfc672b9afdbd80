"""A replay as text and as the documented JSON object (`kvplan schema simulate`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kvplan.render.table import table
from kvplan.render.text import where
from kvplan.simulate.advice import Advice, suggested_length
from kvplan.simulate.answers import Candidate, Fleet
from kvplan.simulate.baselines import Chat, Reclaim
from kvplan.simulate.deployment import Deployment
from kvplan.simulate.promise import Promise
from kvplan.simulate.quantiles import Quantiles
from kvplan.simulate.run import Result
from kvplan.simulate.trace.problems import WORDS, Seen
from kvplan.units import MIB, quantity

PERCENTS = (50, 90, 95, 99)
_NS = 10**9
_LATENCIES = {
    "ttft": ("first token ~", "ttft_ns"),
    "itl": ("next token ~", "itl_ns"),
    "e2e": ("whole answer ~", "e2e_ns"),
    "queue": ("wait ~", "queue_ns"),
}
_OUTCOMES = {
    "head_of_line_blocked": "the first request of the queue can never be admitted, and everybody waits behind it",
    "no_progress": "requests take each other's blocks, and nobody gets to the next token",
    "interrupted": "interrupted: these are the figures up to then",
}


@dataclass(frozen=True, slots=True)
class Report:
    """What is written of a replay; empty where it was not asked for."""

    trace: str
    deployment: Deployment
    result: Result
    replicas: int = 1
    compared: Sequence[Result] = ()
    advice: Sequence[Advice] = ()
    promise: Promise | None = None
    candidates: Sequence[Candidate] = ()
    fleet: Fleet | None = None
    chat: Chat | None = None
    reclaim: Reclaim | None = None


def report_text(report: Report) -> list[str]:
    """Return the lines of a replay; `~` marks what hangs on the step clock."""
    lines = [*_head(report), "", *_figures(report), *_problems(report.result.problems)]
    if report.compared:
        lines += ["", *compared_table([report.result, *report.compared])]
    if report.promise is not None:
        lines += ["", *_answers(report)]
    outcome = report.result.outcome
    if outcome != "complete":
        lines += ["", f"  refused: {_OUTCOMES[outcome]}" if outcome != "interrupted" else f"  note: {_OUTCOMES[outcome]}"]
    lines += ["", *[f"  {'next' if one.flags else 'note'}: {_advice(one)}" for one in report.advice]] if report.advice else []
    return lines


def compared_table(results: Sequence[Result]) -> list[str]:
    """Return a table of replays of one load, a line each."""
    header = ("settings", "steps", "running", "preempted", "pool", "prefix hits", "ttft p50 ~", "ttft p99 ~", "itl p99 ~", "tokens/s ~")
    rows = []
    for result in results:
        summary = result.summary
        rows.append(
            (
                result.name or "as planned",
                f"{summary.steps:,}",
                f"{summary.max_running:,}",
                f"{summary.preemptions:,}",
                f"{summary.peak_used_blocks / result.settings.usable:.0%}",
                _rate(summary.prefix_hit_tokens, summary.prefix_queried_tokens),
                _time(summary.ttft_ns.at(50)),
                _time(summary.ttft_ns.at(99)),
                _time(summary.itl_ns.at(99)),
                _per_second(summary.output_tokens, summary.end_ns),
            )
        )
    return table(header, rows, right=frozenset(range(1, len(header))))


def report_object(report: Report, series: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the JSON object; latencies are nanoseconds on the virtual clock."""
    return {
        "schema": 1,
        "trace": report.trace,
        "replicas": report.replicas,
        **_result(report.result),
        "clock": {"basis": report.deployment.clock.basis, "why": list(report.deployment.clock.why), **asdict(report.deployment.clock.clock)},
        "problems": [
            {"code": code, "count": seen.count, "first_row": seen.first_row, "example": seen.example}
            for code, seen in report.result.problems.items()
        ],
        "compared": [_result(result) for result in report.compared],
        "advice": [{"code": one.code, "why": one.why, "flags": one.flags} for one in report.advice],
        "promise": None if report.promise is None else _promise(report),
        "chat": None if report.chat is None else {**asdict(report.chat), "ratio": report.chat.ratio},
        "reclaim": None if report.reclaim is None else asdict(report.reclaim),
        "series": series,
    }


def _head(report: Report) -> list[str]:
    deployment, result = report.deployment, report.result
    settings, summary = deployment.settings, result.summary
    rows = []
    if deployment.plan is not None:
        rows.append(("model", f"{deployment.plan.model.id}   {where(deployment.plan)}"))
    lengths = f"{summary.prompt_tokens / max(1, summary.requests):,.0f} + {summary.output_tokens / max(1, summary.requests):,.0f} tokens on average"
    rows.append(("load", f"{report.trace}: {summary.requests:,} requests, {lengths}"))
    times = f"{report.replicas} x " if report.replicas > 1 else ""
    rows.append(("pool", f"{times}{settings.usable:,} blocks of {settings.block_size}{_grouped(settings.groups)}"))
    rows.append(("engine", _told(report)))
    clock = deployment.clock
    figures = clock.clock
    told = f"{figures.step_ps / 10**9:.2f} ms a step, {figures.token_ps / 10**6:.1f} us a token, {figures.kv_token_ps / 1000:.1f} ns a cached token"
    rows.append(("clock ~", f"{told}   ({clock.basis})"))
    rows += [("", why) for why in clock.why]
    return [f"  {name:<14} {text}" for name, text in rows]


def _told(report: Report) -> str:
    settings = report.deployment.settings
    words = [f"{settings.max_num_seqs:,} sequences", f"{settings.max_num_batched_tokens:,} tokens a step"]
    words.append("prefix cache" if settings.prefix_caching else "no prefix cache")
    words.append("asynchronous" if settings.async_scheduling else "synchronous")
    return ", ".join(words)


def _grouped(groups: tuple[int | None, ...]) -> str:
    if groups == (None,):
        return " tokens"
    counts: dict[int | None, int] = {}
    for window in groups:
        counts[window] = counts.get(window, 0) + 1
    named = [f"{count} x {'full' if window is None else f'window {window:,}'}" for window, count in counts.items()]
    return f" tokens, shared by groups: {', '.join(named)}"


def _figures(report: Report) -> list[str]:
    settings, summary = report.deployment.settings, report.result.summary
    busy = max(1, summary.steps)
    rows = [
        ("running", f"{summary.max_running:,} at most, {summary.sum_running / busy:,.1f} on average, of {settings.max_num_seqs:,}"),
        ("waiting", f"{summary.max_waiting:,} at most"),
        ("pool used", f"{summary.peak_used_blocks / settings.usable:.1%} at most, {summary.sum_used_blocks / busy / settings.usable:.1%} on average"),
        ("preempted", f"{summary.preemptions:,} times, {summary.preempted_requests:,} requests"),
    ]
    if settings.prefix_caching:
        hits = _rate(summary.prefix_hit_tokens, summary.prefix_queried_tokens)
        rows.append(("prefix hits", f"{hits} of {summary.prefix_queried_tokens:,} prompt tokens"))
    for name, field in _LATENCIES.values():
        rows.append((name, _percentiles(getattr(summary, field))))
    seconds = _per_second(summary.output_tokens, summary.end_ns)
    rows.append(("throughput ~", f"{seconds} tokens/s, {_per_second(summary.finished, summary.end_ns)} requests/s over {_time(summary.end_ns)}"))
    if report.chat is not None:
        chat = report.chat
        told = f"{chat.tokens_at_end:,} tokens at its end; computed: {chat.without_cache:,} without a cache, {chat.new_input:,} with one of every token"
        rows.append(("a chat", f"{told} ({quantity(chat.ratio, 1)} x)"))
        per_token = report.deployment.plan.kv.bytes_per_token if report.deployment.plan else None
        if per_token:
            rows.append(("", f"{quantity(chat.tokens_at_end * per_token / MIB, 1)} MiB of KV cache at its end"))
    if report.reclaim is not None:
        rows.append(("preemption ~", _reclaim(report.reclaim)))
    return [f"  {name:<14} {text}" for name, text in rows]


def _reclaim(reclaim: Reclaim) -> str:
    told = (
        f"{reclaim.tokens:,} tokens each: {reclaim.computed_again:,} computed again in {_time(reclaim.recompute_ns)},"
        f" or all moved out and in over PCIe in {_time(reclaim.swap_ns)}"
    )
    if reclaim.break_even is None:
        return f"{told}; computing is cheaper at any length"
    return f"{told}; moving beats computing all from {reclaim.break_even:,} tokens"


def _problems(problems: Mapping[str, Seen]) -> list[str]:
    if not problems:
        return []
    return [
        "",
        *(
            f"  note: {seen.count:,} row{'s' if seen.count > 1 else ''}: {WORDS[code]} (row {seen.first_row}: {seen.example})"
            for code, seen in problems.items()
        ),
    ]


def _answers(report: Report) -> list[str]:
    promise = report.promise
    assert promise is not None
    header = ("try", "keeps it", *(limit.name for limit in promise.limits), "running", "preempted", "tokens/s ~")
    rows = [
        (
            ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in one.changes.items()),
            "yes" if one.kept else "no",
            *(_limited(limit.name, limit.value(one.result)) for limit in promise.limits),
            f"{one.result.summary.max_running:,}",
            f"{one.result.summary.preemptions:,}",
            _per_second(one.result.summary.output_tokens, one.result.summary.end_ns),
        )
        for one in report.candidates
    ]
    lines = table(header, rows, right=frozenset(range(2, len(header))))
    lines += ["", f"  max_model_len: {suggested_length(report.result, 99):,} holds 99 % of this trace, {suggested_length(report.result):,} all of it"]
    if report.fleet is not None:
        count = report.fleet.count
        told = "no number of engines up to 64 keeps the promise" if count is None else f"{count} engine{'s' if count > 1 else ''} of the first line keep the promise"
        lines.append(f"  {'refused' if count is None else 'fits'}: {told}")
    return lines


def _promise(report: Report) -> dict[str, Any]:
    assert report.promise is not None
    return {
        "limits": [asdict(limit) for limit in report.promise.limits],
        "candidates": [
            {
                "changes": one.changes,
                "kept": one.kept,
                "values": {limit.name: limit.value(one.result) for limit in report.promise.limits},
                "totals": one.result.summary.totals(),
            }
            for one in report.candidates
        ],
        "max_model_len": {"p99": suggested_length(report.result, 99), "all": suggested_length(report.result)},
        "replicas": None if report.fleet is None else report.fleet.count,
    }


def _result(result: Result) -> dict[str, Any]:
    settings = asdict(result.settings)
    settings.pop("clock")
    return {
        "name": result.name,
        "outcome": result.outcome,
        "settings": settings,
        "totals": result.summary.totals(),
        "latency": {
            name: {f"p{percent}": quantiles.at(percent) for percent in PERCENTS} | {"max": quantiles.largest()}
            for name, (_, field) in _LATENCIES.items()
            if isinstance(quantiles := getattr(result.summary, field), Quantiles)
        },
        "lengths": {f"p{percent}": result.summary.lengths.at(percent) for percent in PERCENTS} | {"max": result.summary.lengths.largest()},
        "curve": [list(point) for point in result.curve],
    }


def _advice(one: Advice) -> str:
    return f"{one.flags}   ({one.why})" if one.flags else one.why


def _percentiles(quantiles: Quantiles) -> str:
    return "  ".join(f"p{percent} {_time(quantiles.at(percent))}" for percent in PERCENTS)


def _limited(name: str, value: int | None) -> str:
    return f"{value:,}" if name == "preemptions" and value is not None else _time(value)


def _time(ns: int | None) -> str:
    if ns is None:
        return "-"
    for unit, size in (("h", 3600 * _NS), ("min", 60 * _NS), ("s", _NS), ("ms", 10**6), ("us", 1000)):
        if ns >= size:
            return f"{quantity(ns / size, 1)} {unit}"
    return f"{ns} ns"


def _rate(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _per_second(count: int, ns: int) -> str:
    return quantity(count * _NS / ns, 1) if ns else "-"
