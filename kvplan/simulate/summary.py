"""A replay in figures: totals, percentiles, and a curve that a picture can hold, from its rows in batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from kvplan.simulate.quantiles import Quantiles
from kvplan.simulate.series import RequestRow, StepRow, Timing

MAX_POINTS = 1200  # a curve keeps half as many at least; a picture has no more columns


class Point(NamedTuple):
    """Some steps in a row: when the last of them ended, the highest queues and blocks among them, and sums."""

    end_ns: int
    running: int
    waiting: int
    used_blocks: int
    preempted: int
    queried: int
    hit: int


# Of a summary, what is the sum, or the largest value, of a column of steps
_SUMS = {
    "preemptions": "preempted",
    "prefill_tokens": "prefill_tokens",
    "decode_tokens": "decode_tokens",
    "prefix_queried_tokens": "hit_queried",
    "prefix_hit_tokens": "hit_tokens",
    "resumed_queried_tokens": "pre_queried",
    "resumed_hit_tokens": "pre_hit",
    "evicted_blocks": "evicted",
    "sum_used_blocks": "used_blocks",
    "sum_running": "running",
    "busy_ns": "dur_ns",
}
_LARGEST = {
    "max_running": "running",
    "max_waiting": "waiting",
    "max_scheduled_reqs": "scheduled_reqs",
    "peak_used_blocks": "used_blocks",
}


@dataclass(slots=True)
class Summary:
    """What adds up over steps and requests. Those of several engines are added with `merge`, in any order.

    Latencies are on the virtual clock. `ttft_ns` is from arrival to the end of the step that computed the first token,
    `queue_ns` from arrival to the first step that took part, `e2e_ns` to the last token; `itl_ns` counts, for each
    token that continues an answer, the step that it took (what a preemption adds shows in `e2e_ns` alone), and
    `beside_prompts_ns` those of steps that computed prompts, too.
    `lengths` are prompts with their answers as the trace has them, `longest_request` the longest. `full_steps` had no
    budget left while requests waited.
    """

    requests: int = 0
    finished: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    preempted_requests: int = 0
    steps: int = 0
    end_ns: int = 0
    busy_ns: int = 0
    max_running: int = 0
    max_waiting: int = 0
    max_scheduled_reqs: int = 0
    preemptions: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    prefix_queried_tokens: int = 0
    prefix_hit_tokens: int = 0
    resumed_queried_tokens: int = 0
    resumed_hit_tokens: int = 0
    evicted_blocks: int = 0
    peak_used_blocks: int = 0
    final_used_blocks: int = 0
    longest_request: int = 0
    sum_used_blocks: int = 0
    sum_running: int = 0
    full_steps: int = 0
    ttft_ns: Quantiles = field(default_factory=Quantiles)
    queue_ns: Quantiles = field(default_factory=Quantiles)
    itl_ns: Quantiles = field(default_factory=Quantiles)
    beside_prompts_ns: Quantiles = field(default_factory=Quantiles)
    e2e_ns: Quantiles = field(default_factory=Quantiles)
    lengths: Quantiles = field(default_factory=Quantiles)

    def add_steps(self, rows: Sequence[StepRow], budget: int) -> None:
        """Count a batch of steps; `budget` is the most tokens of one."""
        columns = dict(zip(StepRow._fields, zip(*rows, strict=True), strict=True))
        for name, column in _SUMS.items():
            setattr(self, name, getattr(self, name) + sum(columns[column]))
        for name, column in _LARGEST.items():
            setattr(self, name, max(getattr(self, name), *columns[column]))
        steps = zip(columns["decode_tokens"], columns["prefill_tokens"], columns["dur_ns"], strict=True)
        for decodes, prefill, duration in steps:
            if decodes:
                self.itl_ns.add(duration, decodes)
                if prefill:
                    self.beside_prompts_ns.add(duration, decodes)
        scheduled = zip(columns["prefill_tokens"], columns["decode_tokens"], columns["waiting"], strict=True)
        self.full_steps += sum(waiting > 0 and prefill + decode == budget for prefill, decode, waiting in scheduled)
        self.steps += len(rows)
        self.end_ns = rows[-1].t_ns + rows[-1].dur_ns
        self.final_used_blocks = rows[-1].used_blocks_end

    def add_requests(self, rows: Iterable[tuple[RequestRow, Timing]]) -> None:
        """Count a batch of requests."""
        for row, timing in rows:
            self.requests += 1
            self.prompt_tokens += row.prompt_len
            self.output_tokens += row.output_tokens
            self.preempted_requests += row.preemptions > 0
            if timing.first_sched_ns is not None:
                self.queue_ns.add(timing.first_sched_ns - row.arrival_ns)
            if timing.first_token_ns is not None:
                self.ttft_ns.add(timing.first_token_ns - row.arrival_ns)
            if row.finish_ns is not None:
                self.finished += 1
                self.e2e_ns.add(row.finish_ns - row.arrival_ns)

    def merge(self, other: Summary) -> None:
        """Add what another engine did at the same time."""
        for entry in fields(self):
            mine, theirs = getattr(self, entry.name), getattr(other, entry.name)
            if isinstance(mine, Quantiles):
                mine.update(theirs)
            elif entry.name in _LARGEST or entry.name in ("end_ns", "longest_request"):
                setattr(self, entry.name, max(mine, theirs))
            else:
                setattr(self, entry.name, mine + theirs)

    def totals(self) -> dict[str, int | float | None]:
        """Return the sums under the names that published replays use, means and rates rounded as theirs."""
        totals: dict[str, int | float | None] = {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if isinstance(getattr(self, entry.name), int) and not entry.name.startswith("sum_")
        }
        totals["scheduled_tokens"] = self.prefill_tokens + self.decode_tokens
        totals["prefix_hit_rate"] = share(self.prefix_hit_tokens, self.prefix_queried_tokens)
        totals["mean_used_blocks"] = round(self.sum_used_blocks / self.steps, 6) if self.steps else None
        totals["mean_running"] = round(self.sum_running / self.steps, 6) if self.steps else None
        return totals


def share(part: int, whole: int) -> float | None:
    """Return a rate to nine digits, None of nothing."""
    return round(part / whole, 9) if whole else None


class Curve:
    """Points of a replay over time, at most `MAX_POINTS`: when there are more, two become one."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._steps = 1  # that make up a point
        self._open: list[StepRow] = []

    def add(self, rows: Iterable[StepRow]) -> None:
        """Take a batch of steps."""
        for row in rows:
            self._open.append(row)
            if len(self._open) >= self._steps:
                self.close()

    def close(self) -> None:
        """Make a point of what is left."""
        if not self._open:
            return
        rows, self._open = self._open, []
        self.points.append(
            Point(
                rows[-1].t_ns + rows[-1].dur_ns,
                max(row.running for row in rows),
                max(row.waiting for row in rows),
                max(row.used_blocks for row in rows),
                sum(row.preempted for row in rows),
                sum(row.hit_queried for row in rows),
                sum(row.hit_tokens for row in rows),
            )
        )
        if len(self.points) >= MAX_POINTS:
            pairs = zip(self.points[::2], self.points[1::2], strict=False)
            self.points = [_joined(first, second) for first, second in pairs]
            self._steps *= 2


def _joined(first: Point, second: Point) -> Point:
    return Point(
        second.end_ns,
        max(first.running, second.running),
        max(first.waiting, second.waiting),
        max(first.used_blocks, second.used_blocks),
        first.preempted + second.preempted,
        first.queried + second.queried,
        first.hit + second.hit,
    )
