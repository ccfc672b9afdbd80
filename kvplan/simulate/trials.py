"""Advice that its own replay bears out: a change is proposed where the load, replayed with it, is better for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvplan.errors import KvplanError
from kvplan.simulate.advice import Proposal, proposals
from kvplan.simulate.baselines import Scenario
from kvplan.simulate.deployment import Ask, Deployment, changed, deploy
from kvplan.simulate.event import runs_events
from kvplan.simulate.run import Result
from kvplan.simulate.settings import Settings
from kvplan.simulate.sources import Source, TraceFile, read_at_hand
from kvplan.simulate.summary import Summary
from kvplan.simulate.tasks import Task, merged, replicas
from kvplan.simulate.trace.problems import Problems

# Requests times steps that are replayed once more for each proposal, about half a second of each engine
_SHORT, _SHORT_BY_STEPS = 1_000_000, 40_000
_NOTICED = 0.02  # a figure within 2 % is the same
_SECOND = 10**9

Run = Callable[[Sequence[Task]], list[Result]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of a replay that advice is weighed by."""

    finished: int
    preemptions: int
    queue_p99_ns: int
    itl_p99_ns: int
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class Replayed:
    """The replay that was asked for, and the one with the change."""

    before: Outcome
    after: Outcome


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to try: `flags` change something, and `why` is the evidence; without flags it is a finding.

    `replayed` is None where it is a finding, or was not tried. `price` is what no replay shows.
    """

    code: str
    why: str
    flags: str = ""
    price: str = ""
    replayed: Replayed | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """What is needed to replay a load once more: what was asked, what it came to, and who runs replays."""

    ask: Ask
    deployment: Deployment
    result: Result
    source: Source
    run: Run
    replicas: int = 1


def advise(trial: Trial) -> list[Advice]:
    """Return what to try, in order, with what speaks for it. Raises KeyboardInterrupt after Ctrl-C.

    A load that takes long is not replayed again: what it speaks for is marked as not tried.
    """
    proposed = proposals(trial.deployment, trial.result, trial.replicas)
    if not any(one.tries for one in proposed):
        return [Advice(one.code, one.why) for one in proposed]
    source = _at_hand(trial)
    found = [_untried(trial, one) if source is None else _tried(trial, one, source) for one in proposed]
    return [advice for advice in found if advice is not None]


def outcome(result: Result) -> Outcome:
    """Return what a replay is weighed by."""
    summary = result.summary
    rate = summary.output_tokens * _SECOND / summary.end_ns if summary.end_ns else 0.0
    waited, token = summary.queue_ns.at(99) or 0, summary.itl_ns.at(99) or 0
    return Outcome(summary.finished, summary.preemptions, waited, token, rate)


def _at_hand(trial: Trial) -> Source | None:
    """Return the load, read once for all trials; None where replaying it again takes long, or it was stdin."""
    if isinstance(trial.source, TraceFile) and trial.source.path == "-":
        return None
    if not _short(trial.result.summary, trial.result.settings):
        return None
    return read_at_hand(trial.source, Problems())


def _short(summary: Summary, settings: Settings) -> bool:
    return summary.sum_running <= (_SHORT if runs_events(settings) else _SHORT_BY_STEPS)


def _tried(trial: Trial, proposal: Proposal, source: Source) -> Advice | None:
    before, vain = outcome(trial.result), []
    for changes in proposal.tries:
        result = _replayed(trial, changes, source)
        if result is None:
            continue
        if _better(trial.result, result, proposal):
            replayed = Replayed(before, outcome(result))
            return Advice(proposal.code, proposal.why, _flags(changes), proposal.price, replayed)
        vain.append(_flags(changes))
    told = f"; replayed with {' and '.join(vain)}: no better" if vain else ""
    return Advice(proposal.code, proposal.why + told) if proposal.stays else None


def _untried(trial: Trial, proposal: Proposal) -> Advice | None:
    # too few sequences lengthen waits: how many are too few only a replay tells
    if proposal.tries and proposal.code != "preemptions":
        changes = proposal.tries[0]
        if "replicas" in changes or _settings(trial, changes) is not None:
            return Advice(proposal.code, proposal.why, _flags(changes), proposal.price)
    return Advice(proposal.code, proposal.why) if proposal.stays else None


def _replayed(trial: Trial, changes: Mapping[str, Any], source: Source) -> Result | None:
    settings, count = trial.deployment.settings, int(changes.get("replicas", trial.replicas))
    if "replicas" not in changes:
        made = _settings(trial, changes)
        if made is None:
            return None
        settings = made
    results = trial.run(replicas(Scenario("", settings), source, count))
    if len(results) < count or any(one.outcome == "interrupted" for one in results):
        raise KeyboardInterrupt
    return merged(results, "")


def _settings(trial: Trial, changes: Mapping[str, Any]) -> Settings | None:
    """Return the settings with a change; None where the engine would not start with it."""
    try:
        return deploy(changed(trial.ask, changes)).settings
    except KvplanError:
        return None


def _better(before: Result, after: Result, proposal: Proposal) -> bool:
    if after.outcome != "complete" or after.summary.finished < before.summary.finished:
        return False
    if proposal.certain or before.outcome != "complete":
        return after.summary.finished > before.summary.finished
    old, new = outcome(before), outcome(after)
    # how many times better: above 1 is better
    gains = {
        "wait": _times(old.queue_p99_ns, new.queue_p99_ns),
        "rate": _times(new.tokens_per_s, old.tokens_per_s),
        "preemptions": _times(old.preemptions, new.preemptions),
    }
    worse = any(gains[name] < 1 - _NOTICED for name in ("wait", "rate"))
    return not worse and any(gains[name] > 1 + _NOTICED for name in proposal.claims)


def _times(one: float, other: float) -> float:
    return one / other if other else (1.0 if not one else float("inf"))


def _flags(changes: Mapping[str, Any]) -> str:
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in changes.items())
