"""One replay from a source of requests to its figures: which engine runs it, and where the rows go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

from kvplan.simulate.baselines import Batching
from kvplan.simulate.engine import run_steps
from kvplan.simulate.event import run_events, runs_events
from kvplan.simulate.replay import Status, jobs
from kvplan.simulate.request import Request
from kvplan.simulate.series import RequestRow, StepRow, Timing
from kvplan.simulate.settings import Settings
from kvplan.simulate.static import run_static
from kvplan.simulate.summary import Curve, Point, Summary
from kvplan.simulate.trace.problems import Problems, Seen

BATCH = 4096  # rows handed on at once: summing columns of a batch costs a tenth of summing row by row

StepBatch: TypeAlias = Callable[[Sequence[StepRow]], None]
RequestBatch: TypeAlias = Callable[[Sequence[tuple[RequestRow, Timing]]], None]
_Row = TypeVar("_Row")
Outcome: TypeAlias = Status | Literal["interrupted"]


@dataclass(frozen=True, slots=True)
class Result:
    """What a replay came to, under the name that a comparison gives it."""

    name: str
    settings: Settings
    outcome: Outcome
    summary: Summary
    curve: tuple[Point, ...]
    problems: dict[str, Seen] = field(default_factory=dict)


class _Batches(Generic[_Row]):
    """Rows collected, and handed on a batch at a time."""

    def __init__(self, readers: Sequence[Callable[[Sequence[_Row]], None]]) -> None:
        self._readers = readers
        self._rows: list[_Row] = []

    def add(self, row: _Row) -> None:
        self._rows.append(row)
        if len(self._rows) == BATCH:
            self.flush()

    def flush(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            for read in self._readers:
                read(rows)


def simulate(
    requests: Iterable[Request],
    settings: Settings,
    problems: Problems,
    *,
    name: str = "",
    batching: Batching = "continuous",
    on_steps: Sequence[StepBatch] = (),
    on_requests: Sequence[RequestBatch] = (),
) -> Result:
    """Replay requests; whoever listens gets the rows in batches. Ctrl-C ends it with what is known so far."""
    summary, curve = Summary(), Curve()
    budget = settings.max_num_batched_tokens
    steps = _Batches[StepRow]([lambda rows: summary.add_steps(rows, budget), curve.add, *on_steps])
    finished = _Batches[tuple[RequestRow, Timing]]([summary.add_requests, *on_requests])
    continuous = run_events if runs_events(settings) else run_steps
    run = run_static if batching == "static" else continuous
    outcome: Outcome
    try:
        outcome = run(
            jobs(_measured(requests, summary), settings, problems),
            settings,
            steps.add,
            lambda row, timing: finished.add((row, timing)),
        )
    except KeyboardInterrupt:
        outcome = "interrupted"
    steps.flush()
    finished.flush()
    curve.close()
    return Result(name, settings, outcome, summary, tuple(curve.points), problems.seen)


def _measured(requests: Iterable[Request], summary: Summary) -> Iterator[Request]:
    """Count how long requests would be, also of those that this max_model_len refuses."""
    for request in requests:
        length = request.prompt + request.output
        summary.lengths.add(length)
        summary.longest_request = max(summary.longest_request, length)
        yield request
