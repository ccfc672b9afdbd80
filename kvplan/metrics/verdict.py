"""The operator's verdict: what holds a server back, by thresholds of profiles/metrics/thresholds.yaml.

The order matters: preempted requests are computed twice, so over-admission is named before the full pool that causes
it; a queue beside a pool with room is the scheduler's doing; a prefix cache is judged beside all of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kvplan.metrics.dialect import thresholds
from kvplan.metrics.flow import Flow
from kvplan.metrics.snapshot import Snapshot, State
from kvplan.units import quantity

Code = Literal[
    "over_admission", "saturated", "scheduler_limit", "tight", "busy", "room", "idle", "unclear",
    "uneven", "prefix_cache_off", "no_prefix_hits",
]  # fmt: skip
TROUBLE = frozenset({"over_admission", "saturated", "scheduler_limit"})


@dataclass(frozen=True, slots=True)
class Finding:
    """What is the case, the figures beside their thresholds that say so, and what to do about it."""

    code: Code
    message: str
    evidence: tuple[str, ...]
    hint: str


def judge(server: Snapshot, flow: Flow, max_num_seqs: int | None) -> tuple[Finding, ...]:
    """Return the findings; the first is the verdict, on the hottest replica."""
    state = hottest(server)
    return (_main(server, state, flow, max_num_seqs), *_uneven(server), *_prefix(server, flow))


def hottest(server: Snapshot) -> State:
    """Return the replica that is closest to trouble: the fullest pool, then the longest queue."""
    nothing = State("", None, None, None, None)
    return max(server.states, key=lambda state: (state.usage or 0, state.waiting or 0), default=nothing)


def _main(server: Snapshot, state: State, flow: Flow, max_num_seqs: int | None) -> Finding:
    limits, words = thresholds(), server.dialect.words
    waiting = None if state.waiting is None else state.waiting - _deferred(state)
    usage = state.usage
    preempted = _preempted(flow)
    # preemptions of now are proof of a full pool, whatever the gauge reads a moment later; old ones are not
    if preempted and (usage is None or usage >= limits["pool_busy"].value or flow.since == "first snapshot"):
        fewer = _fewer(state)
        evidence = (*preempted, *_at("usage", usage, "pool_busy"))
        hint = f"lower {words['slots']}{fewer}, or give the pool more memory"
        return Finding("over_admission", "requests are let in that the pool cannot hold to their end", evidence, hint)
    if usage is None or waiting is None:
        lacking = [name for name, value in (("cache usage", usage), ("waiting requests", waiting)) if value is None]
        told = f"the metrics hold no {' and no '.join(lacking)}, which tell memory from slots"
        return Finding("unclear", told, _queued(flow), words["enable"])
    if usage >= limits["pool_full"].value and waiting:
        evidence = (*_at("usage", usage, "pool_full"), f"{waiting:,.0f} waiting")
        hint = f"more KV memory: {words['memory']}, an fp8 KV cache, more GPUs (kvplan size MODEL --fit)"
        return Finding("saturated", "the pool is full, and requests wait for it", evidence, hint)
    if waiting >= limits["queue"].value and usage < limits["pool_busy"].value:
        return _scheduler_limit(server, state, waiting, usage, max_num_seqs)
    if usage >= limits["pool_busy"].value:
        evidence = (*_at("usage", usage, "pool_busy"), f"{waiting:,.0f} waiting")
        return Finding("tight", "the pool is well used, and little of it is left", evidence, "")
    if not state.running and not waiting:
        return Finding("idle", "no request runs or waits", (), "take the snapshot under load")
    if usage < limits["pool_roomy"].value and not waiting:
        evidence = (f"usage {_percent(usage)}, below {_percent(limits['pool_roomy'].value)}", "none waiting")
        return Finding("room", "there is room to spare", evidence, _more(state))
    return Finding("busy", "neither memory nor slots hold it back", (f"usage {_percent(usage)}",), "")


def _scheduler_limit(server: Snapshot, state: State, waiting: float, usage: float, max_num_seqs: int | None) -> Finding:
    limits, words, running = thresholds(), server.dialect.words, state.running or 0
    evidence = [
        f"usage {_percent(usage)}, below {_percent(limits['pool_busy'].value)}",
        f"{waiting:,.0f} waiting, at or above {limits['queue'].value:,.0f}",
        f"{running:,.0f} running",
    ]
    hint = f"raise {words['slots']} where {running:,.0f} is its value, else {words['batch']}"
    if max_num_seqs is not None:
        full = running >= max_num_seqs
        evidence[-1] += f" of {max_num_seqs:,} slots"
        hint = f"raise {words['slots']}" if full else f"slots are free: {words['batch']} lets more prompt tokens in"
    return Finding("scheduler_limit", "the scheduler holds requests back, not the memory", tuple(evidence), hint)


def _preempted(flow: Flow) -> tuple[str, ...]:
    """Return the evidence that preemptions are more than the odd one, nothing where they are not or are not known."""
    limits = thresholds()
    if flow.preemptions_a_minute is not None:
        limit = limits["preemptions_a_minute"].value
        told = f"{quantity(flow.preemptions_a_minute, 1)} preemptions a minute, above {limit:g}"
        return (told,) if flow.preemptions_a_minute > limit else ()
    if flow.preemptions_a_request is None:
        odd = limits["preemptions_a_minute"].value
        stuck = flow.finished == 0 and flow.preemptions is not None and flow.preemptions > odd
        return (f"{flow.preemptions:,.0f} preemptions, and no request finished",) if stuck else ()
    limit = limits["preemptions_a_request"].value
    told = f"{quantity(flow.preemptions_a_request, 3)} preemptions a finished request, above {limit:g}"
    return (told,) if flow.preemptions_a_request > limit else ()


def _uneven(server: Snapshot) -> Iterator[Finding]:
    limits = thresholds()
    shares = [(state.usage, state.replica) for state in server.states if state.usage is not None]
    if len(shares) < 2:
        return
    (low, cool), (high, hot) = min(shares), max(shares)
    if high - low >= limits["uneven"].value and high >= limits["pool_busy"].value:
        evidence = (f"{hot}: {_percent(high)}", f"{cool}: {_percent(low)}")
        yield Finding("uneven", "the replicas are not loaded alike", evidence, "route by load, not in turn")


def _prefix(server: Snapshot, flow: Flow) -> Iterator[Finding]:
    limits = thresholds()
    if server.prefix_caching is False:
        yield Finding("prefix_cache_off", "the prefix cache is switched off", (), server.dialect.words["prefix"])
    elif (
        flow.hit_rate is not None
        and flow.queried_tokens is not None
        and flow.queried_tokens >= limits["queried_tokens"].value
        and flow.hit_rate < limits["hit_rate"].value
    ):
        evidence = (
            f"hit rate {_percent(flow.hit_rate)}, below {_percent(limits['hit_rate'].value)}",
            f"{flow.queried_tokens:,.0f} tokens looked up",
        )
        hint = "put what prompts share first (system prompt before dates and ids); route a session to one replica"
        yield Finding("no_prefix_hits", "the prefix cache never hits", evidence, hint)


def _deferred(state: State) -> float:
    """Return the waiting requests that wait for something else than room: a grammar, an adapter, a KV transfer."""
    return min(state.deferred or 0, state.waiting or 0)


def _fewer(state: State) -> str:
    """Return the count that would fit: what runs holds `usage` of the pool, a well-used pool holds `pool_full`."""
    if not state.running or not state.usage or state.running < 2 or state.usage < thresholds()["pool_busy"].value:
        return ""
    fit = math.floor(state.running * min(1.0, thresholds()["pool_full"].value / state.usage))
    return f" to about {max(1, fit):,}"


def _more(state: State) -> str:
    if not state.running or not state.usage:
        return ""
    return f"about {math.floor(state.running * thresholds()['pool_full'].value / state.usage):,} such requests fit"


def _queued(flow: Flow) -> tuple[str, ...]:
    return () if flow.queue_seconds is None else (f"{quantity(flow.queue_seconds, 2)} s in the queue on average",)


def _at(what: str, value: float | None, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    limit = thresholds()[name].value
    return (f"{what} {_percent(value)}, {'at or above' if value >= limit else 'now below'} {_percent(limit)}",)


def _percent(share: float) -> str:
    return f"{quantity(share * 100, 1)} %"
