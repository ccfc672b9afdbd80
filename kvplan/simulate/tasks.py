"""Replays that do not depend on each other: one after the other, on this machine's cores, or on a Ray cluster.

A task is a value and a replay is integer arithmetic, so the figures are the same wherever it runs.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from kvplan.errors import UsageError
from kvplan.simulate.baselines import Scenario
from kvplan.simulate.run import Result, simulate
from kvplan.simulate.sources import Source, open_source
from kvplan.simulate.trace.problems import Problems
from kvplan.simulate.workers import spread


@dataclass(frozen=True, slots=True)
class Task:
    """One replay: a scenario over a source, or over a replica's share (i, n) of it."""

    scenario: Scenario
    source: Source
    shard: tuple[int, int] = (0, 1)
    strict: bool = False


def run_task(task: Task) -> Result:
    """Run one replay."""
    problems = Problems(task.strict)
    scenario = task.scenario
    requests = open_source(task.source, problems, task.shard)
    return simulate(requests, scenario.settings, problems, name=scenario.name, batching=scenario.batching)


def run_tasks(tasks: Sequence[Task], *, workers: int | None = None, ray: str | None = None) -> list[Result]:
    """Run replays and return their results in the order of the tasks; `ray` is a cluster's address, or `local`.

    After Ctrl-C it returns those that have come to any figures.
    """
    if ray is not None:
        return _on_ray(tasks, ray)
    workers = min(len(tasks), workers or os.cpu_count() or 1)
    if workers <= 1:
        results: list[Result] = []
        for task in tasks:
            results.append(run_task(task))
            if results[-1].outcome == "interrupted":
                break
        return results
    return spread(run_task, tasks, workers)


def replicas(scenario: Scenario, source: Source, count: int, *, strict: bool = False) -> list[Task]:
    """Return the tasks of so many engines that share a load, row by row in turn."""
    return [Task(scenario, source, (index, count), strict) for index in range(count)]


def merged(results: Sequence[Result], name: str) -> Result:
    """Return what several engines came to together; the curve is that of the first."""
    first = results[0]
    for other in results[1:]:
        first.summary.merge(other.summary)
        for code, seen in other.problems.items():
            mine = first.problems.setdefault(code, replace(seen, count=0))
            mine.count += seen.count
            mine.first_row = min(mine.first_row, seen.first_row)
    outcomes = [result.outcome for result in results]
    return replace(first, name=name, outcome=next((one for one in outcomes if one != "complete"), "complete"))


def _on_ray(tasks: Sequence[Task], address: str) -> list[Result]:
    """Run tasks on a cluster, which stays connected until the process ends: an answer takes several rounds of tasks."""
    if find_spec("ray") is None:
        raise UsageError("--ray needs Ray, which is not installed", "pip install 'kvplan[ray]', or leave --ray out")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray: Any = import_module("ray")
    if not ray.is_initialized():
        local = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"} if address == "local" else {}
        try:
            _knock(address)
            ray.init(address=None if address == "local" else address, configure_logging=False, **local)
        except Exception as error:  # its errors have no common class
            hint = "HOST:PORT of a head node, as `ray start --head` prints it, or local"
            raise UsageError(f"no Ray cluster answers at {address[:80]!r}", hint) from error
    remote = ray.remote(run_task)
    return list(ray.get([remote.remote(task) for task in tasks]))


def _knock(address: str) -> None:
    """Raise OSError where nobody listens at HOST:PORT: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isascii() and port.isdigit():
        socket.create_connection((host, int(port)), timeout=5).close()
