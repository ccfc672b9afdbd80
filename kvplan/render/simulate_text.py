"""A replay as a terminal shows it; `~` marks what hangs on the step clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kvplan.render.simulate import LATENCIES, PERCENTS, Report
from kvplan.render.table import table
from kvplan.render.text import where
from kvplan.simulate.advice import suggested_length
from kvplan.simulate.answers import MAX_REPLICAS
from kvplan.simulate.baselines import Chat, Reclaim
from kvplan.simulate.promise import Promise
from kvplan.simulate.quantiles import Quantiles
from kvplan.simulate.run import Result
from kvplan.simulate.settings import Settings
from kvplan.simulate.trace.problems import WORDS, Seen
from kvplan.simulate.trials import Advice, Replayed
from kvplan.units import MIB, quantity

_Row = tuple[str, str]
_SECOND = 10**9
_TIMES = (("h", 3600 * _SECOND), ("min", 60 * _SECOND), ("s", _SECOND), ("ms", 10**6), ("us", 1000))
_NAMES = {
    "ttft": "first token ~",
    "itl": "next token ~",
    "itl_beside_prompts": "  by prompts ~",
    "e2e": "whole answer ~",
    "queue": "wait ~",
}
_OUTCOMES = {
    "head_of_line_blocked": "refused: the first of the queue can never be admitted, and everybody waits behind it",
    "no_progress": "refused: requests take each other's blocks, and nobody gets to the next token",
    "interrupted": "note: interrupted, these are the figures up to then",
}


def report_text(report: Report) -> list[str]:
    """Return the lines of a replay."""
    lines = [*_aligned(_asked(report)), "", *_aligned(_figures(report))]
    for part in (
        _problems(report.result.problems),
        compared_table([report.result, *report.compared]) if report.compared else [],
        _answers(report, report.promise) if report.promise is not None else [],
        [f"  {_OUTCOMES[report.result.outcome]}"] if report.result.outcome in _OUTCOMES else [],
        [f"  {line}" for one in report.advice for line in _advice(one)],
    ):
        lines += ["", *part] if part else []
    return lines


def compared_table(results: Sequence[Result]) -> list[str]:
    """Return a table of replays of one load, a line each."""
    header = (
        "settings", "steps", "running", "preempted", "pool", "prefix hits", "ttft p50 ~", "ttft p99 ~", "itl p99 ~",
        "tokens/s ~",
    )  # fmt: skip
    rows = [
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
        for result in results
        for summary in [result.summary]
    ]
    return table(header, rows, right=frozenset(range(1, len(header))))


def _asked(report: Report) -> list[_Row]:
    deployment, summary = report.deployment, report.result.summary
    settings, clock = deployment.settings, deployment.clock
    requests = max(1, summary.requests)
    average = f"{summary.prompt_tokens / requests:,.0f} + {summary.output_tokens / requests:,.0f} tokens on average"
    engines = f"{report.replicas} x " if report.replicas > 1 else ""
    told = clock.clock
    figures = (
        f"{told.step_ps / 10**9:.2f} ms a step, {told.token_ps / 10**6:.1f} us a token,"
        f" {told.kv_token_ps / 10**3:.1f} ns a cached token"
    )
    rows = [
        ("load", f"{report.trace}: {summary.requests:,} requests, {average}"),
        ("pool", f"{engines}{settings.usable:,} blocks of {settings.block_size} tokens{_groups(settings.groups)}"),
        ("engine", _engine(settings)),
        ("clock ~", f"{figures}   ({clock.basis})"),
        *(("", why) for why in clock.why),
    ]
    if deployment.plan is not None:
        rows.insert(0, ("model", f"{deployment.plan.model.id}   {where(deployment.plan)}"))
    return rows


def _engine(settings: Settings) -> str:
    return ", ".join(
        (
            f"{settings.max_num_seqs:,} sequences",
            f"{settings.max_num_batched_tokens:,} tokens a step",
            "prefix cache" if settings.prefix_caching else "no prefix cache",
            "asynchronous" if settings.async_scheduling else "synchronous",
        )
    )


def _groups(groups: tuple[int | None, ...]) -> str:
    if groups == (None,):
        return ""
    named = (
        f"{count} x {'full' if window is None else f'window {window:,}'}" for window, count in Counter(groups).items()
    )
    return f", shared by groups: {', '.join(named)}"


def _figures(report: Report) -> list[_Row]:
    settings, summary = report.deployment.settings, report.result.summary
    steps = max(1, summary.steps)
    running = f"{summary.max_running:,} at most, {summary.sum_running / steps:,.1f} on average"
    most, mean = summary.peak_used_blocks, summary.sum_used_blocks / steps
    tokens = _per_second(summary.output_tokens, summary.end_ns)
    requests = _per_second(summary.finished, summary.end_ns)
    rows = [
        ("running", f"{running}, of {settings.max_num_seqs:,}"),
        ("waiting", f"{summary.max_waiting:,} at most"),
        ("pool used", f"{most / settings.usable:.1%} at most, {mean / settings.usable:.1%} on average"),
        ("preempted", f"{summary.preemptions:,} times, {summary.preempted_requests:,} requests"),
    ]
    if settings.prefix_caching:
        hits = _rate(summary.prefix_hit_tokens, summary.prefix_queried_tokens)
        rows.append(("prefix hits", f"{hits} of {summary.prefix_queried_tokens:,} prompt tokens"))
    for name, field in LATENCIES.items():
        told = _percentiles(getattr(summary, field))
        if name == "itl_beside_prompts":
            part = _rate(summary.beside_prompts_ns.counts.total(), summary.itl_ns.counts.total())
            told += f"   ({part} of them in steps that compute prompts, too)"
        rows.append((_NAMES[name], told))
    rows.append(("throughput ~", f"{tokens} tokens/s, {requests} requests/s over {_time(summary.end_ns)}"))
    if report.chat is not None:
        plan = report.deployment.plan
        rows.append(("a chat", _chat(report.chat, plan.kv.bytes_per_token if plan else None)))
    if report.reclaim is not None:
        rows.append(("preemption ~", _reclaim(report.reclaim)))
    return rows


def _chat(chat: Chat, token_bytes: int | None) -> str:
    held = f" ({quantity(chat.tokens_at_end * token_bytes / MIB, 0)} MiB)" if token_bytes else ""
    return (
        f"{chat.tokens_at_end:,} tokens{held} at its end; computed: {chat.without_cache:,} without a cache,"
        f" {chat.new_input:,} if every token is used again ({quantity(chat.ratio, 1)} x)"
    )


def _reclaim(reclaim: Reclaim) -> str:
    told = (
        f"{reclaim.tokens:,} tokens each: {reclaim.computed_again:,} computed again in {_time(reclaim.recompute_ns)},"
        f" or all moved out and in over PCIe in {_time(reclaim.swap_ns)}"
    )
    if reclaim.break_even is None:
        return f"{told}; computing is cheaper at any length"
    return f"{told}; moving beats computing all from {reclaim.break_even:,} tokens"


def _problems(problems: Mapping[str, Seen]) -> list[str]:
    lines = []
    for code, seen in problems.items():
        rows = "1 row" if seen.count == 1 else f"{seen.count:,} rows"
        lines.append(f"  note: {rows}: {WORDS[code]} (row {seen.first_row}: {seen.example})")
    return lines


def _answers(report: Report, promise: Promise) -> list[str]:
    header = ("try", "keeps it", *(limit.name for limit in promise.limits), "running", "preempted", "tokens/s ~")
    rows = [
        (
            ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in one.changes.items()),
            "yes" if one.kept else "no",
            *(_value(limit.name, limit.value(one.result)) for limit in promise.limits),
            f"{one.result.summary.max_running:,}",
            f"{one.result.summary.preemptions:,}",
            _per_second(one.result.summary.output_tokens, one.result.summary.end_ns),
        )
        for one in report.candidates
    ]
    most, all_of_it = suggested_length(report.result, 99), suggested_length(report.result)
    lines = table(header, rows, right=frozenset(range(2, len(header))))
    lines += ["", f"  --max-model-len {most} holds 99 % of this trace, {all_of_it} all of it"]
    if report.fleet is not None:
        count = report.fleet.count
        told = f"refused: not even {MAX_REPLICAS} engines with the settings of the first line keep the promise"
        if count is not None:
            told = f"fits: with the settings of the first line, {count} engine{'s' * (count > 1)} keep the promise"
        lines.append(f"  {told}")
    return lines


def _advice(one: Advice) -> list[str]:
    if not one.flags:
        return [f"note: {one.why}"]
    if one.replayed is not None:
        told = f"replayed: {_change(one.replayed)}"
    elif one.flags.startswith("--replicas"):
        told = "not tried"
    else:
        name, value = one.flags.removeprefix("--").split()
        told = f"not tried: --compare {name.replace('-', '_')}={value} does"
    price = f"; the price: {one.price}" if one.price else ""
    return [f"next: {one.flags}   ({one.why})", f"      {told}{price}"]


def _change(replayed: Replayed) -> str:
    """Return what differs between two replays, as a terminal shows the figures."""
    old, new = replayed.before, replayed.after
    pairs = (
        ("{} finished", f"{old.finished:,}", f"{new.finished:,}"),
        ("wait p99 {}", _time(old.queue_p99_ns), _time(new.queue_p99_ns)),
        ("next token p99 {}", _time(old.itl_p99_ns), _time(new.itl_p99_ns)),
        ("{} tokens/s", quantity(old.tokens_per_s, 1), quantity(new.tokens_per_s, 1)),
        ("{} preemptions", f"{old.preemptions:,}", f"{new.preemptions:,}"),
    )
    return ", ".join(told.format(f"{one} -> {other}") for told, one, other in pairs if one != other)


def _aligned(rows: Sequence[_Row]) -> list[str]:
    return [f"  {name:<14} {text}" for name, text in rows]


def _percentiles(quantiles: Quantiles) -> str:
    return "  ".join(f"p{percent} {_time(quantiles.at(percent))}" for percent in PERCENTS)


def _value(name: str, value: int | None) -> str:
    return f"{value:,}" if name == "preemptions" and value is not None else _time(value)


def _time(ns: int | None) -> str:
    if ns is None:
        return "-"
    return next((f"{quantity(ns / size, 1)} {unit}" for unit, size in _TIMES if ns >= size), f"{ns} ns")


def _rate(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _per_second(count: int, ns: int) -> str:
    return quantity(count * _SECOND / ns, 1) if ns else "-"
