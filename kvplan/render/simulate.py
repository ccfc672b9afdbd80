"""A replay as the documented JSON object (`kvplan schema simulate`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kvplan.simulate.advice import suggested_length
from kvplan.simulate.answers import Candidate, Fleet
from kvplan.simulate.baselines import Chat, Reclaim
from kvplan.simulate.deployment import Deployment
from kvplan.simulate.promise import Promise
from kvplan.simulate.quantiles import Quantiles
from kvplan.simulate.run import Result
from kvplan.simulate.trials import Advice

PERCENTS = (50, 90, 95, 99)
LATENCIES = {
    "ttft": "ttft_ns",
    "itl": "itl_ns",
    "itl_beside_prompts": "beside_prompts_ns",
    "e2e": "e2e_ns",
    "queue": "queue_ns",
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


def report_object(report: Report, series: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the JSON object; latencies are nanoseconds on the virtual clock."""
    clock, chat = report.deployment.clock, report.chat
    return {
        "schema": 1,
        "trace": report.trace,
        "replicas": report.replicas,
        "clock": {"basis": clock.basis, "why": list(clock.why), **asdict(clock.clock)},
        "result": _result(report.result),
        "problems": [{"code": code, **asdict(seen)} for code, seen in report.result.problems.items()],
        "compared": [_result(result) for result in report.compared],
        "advice": [asdict(one) for one in report.advice],
        "promise": None if report.promise is None else _promise(report, report.promise),
        "chat": None if chat is None else {**asdict(chat), "ratio": chat.ratio},
        "reclaim": None if report.reclaim is None else asdict(report.reclaim),
        "series": series,
    }


def _result(result: Result) -> dict[str, Any]:
    settings = asdict(result.settings)
    del settings["clock"]
    summary = result.summary
    return {
        "name": result.name,
        "outcome": result.outcome,
        "settings": settings,
        "totals": summary.totals(),
        "latency": {name: _percentiles(getattr(summary, field)) for name, field in LATENCIES.items()},
        "lengths": {**_percentiles(summary.lengths), "max": summary.longest_request},
        "curve": [point._asdict() for point in result.curve],
    }


def _percentiles(quantiles: Quantiles) -> dict[str, int | None]:
    return {f"p{percent}": quantiles.at(percent) for percent in PERCENTS} | {"max": quantiles.largest()}


def _promise(report: Report, promise: Promise) -> dict[str, Any]:
    return {
        "limits": [asdict(limit) for limit in promise.limits],
        "candidates": [
            {
                "changes": one.changes,
                "kept": one.kept,
                "values": {limit.name: limit.value(one.result) for limit in promise.limits},
                "totals": one.result.summary.totals(),
            }
            for one in report.candidates
        ],
        "max_model_len": {"p99": suggested_length(report.result, 99), "all": suggested_length(report.result)},
        "replicas": None if report.fleet is None else report.fleet.count,
    }
