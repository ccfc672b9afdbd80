"""The step-by-step engine: arrivals, the scheduler, the virtual clock, and a row of figures for every step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kvplan.errors import UsageError
from kvplan.simulate.live import Live, Share, Step
from kvplan.simulate.replay import Job, Status, patience
from kvplan.simulate.scheduler import Scheduler
from kvplan.simulate.series import RequestRow, RequestSink, StepRow, StepSink, Timing
from kvplan.simulate.settings import Settings

MAX_BLOCKS = 2**23  # at 130 bytes a block, 1 GiB; the largest pools that are planned have half as many


def run_steps(jobs: Iterable[Job], settings: Settings, on_step: StepSink, on_request: RequestSink) -> Status:
    """Replay the jobs, every step in full; the sinks get the rows, requests in the order in which they finish.

    Raises UsageError where the pool has more blocks than are kept one by one.
    """
    if settings.num_blocks > MAX_BLOCKS:
        raise UsageError(
            f"{settings.num_blocks:,} blocks are more than are replayed step by step ({MAX_BLOCKS:,})",
            "larger blocks, or one group of full attention, which needs no memory for its blocks",
        )
    replay = _Replay(jobs, settings, on_step, on_request)
    while replay.turn():
        pass
    return replay.status


@dataclass(slots=True)
class _Record:
    """What is noted about a request on its way: steps, and the clock at the start of one and at the end of another."""

    arrival_step: int
    first_sched_step: int | None = None
    first_sched_ns: int | None = None
    hit_first: int | None = None
    first_token_step: int | None = None
    first_token_ns: int | None = None


class _Replay:
    def __init__(self, jobs: Iterable[Job], settings: Settings, on_step: StepSink, on_request: RequestSink) -> None:
        self.status: Status = "complete"
        self._settings = settings
        self._scheduler = Scheduler(settings)
        self._jobs: Iterator[Job] = iter(jobs)
        self._next = next(self._jobs, None)
        self._on_step, self._on_request = on_step, on_request
        self._now = self._index = 0
        self._in_flight: Step | None = None
        self._records: dict[Live, _Record] = {}
        self._dry = 0  # steps in a row in which nobody sampled
        self._longest = 0

    def turn(self) -> bool:
        """Run one step; False where there is none left to run."""
        scheduler = self._scheduler
        arrived = self._arrive()
        if not scheduler.running and not scheduler.waiting:
            if self._next is None:
                return False
            self._now = self._next.request.arrival_ns
            return True
        step = scheduler.step()
        tokens = sum(share.tokens for share in step.shares)
        read = sum(share.start + share.tokens for share in step.shares)
        duration = self._settings.clock.duration_ns(tokens, read, len(step.shares))
        self._note(step, self._now + duration)
        pool = scheduler.cache.pool
        after = (len(scheduler.running), len(scheduler.waiting), pool.used, len(pool.cached))
        # with two steps in flight, the tokens that arrive now are those of the step before
        delivered = self._in_flight if self._settings.async_scheduling else step
        self._in_flight = step
        finished = scheduler.deliver(delivered) if delivered else []
        self._on_step(self._row(step, arrived, after, len(finished), (tokens, read, duration)))
        self._now += duration
        for live in finished:
            self._emit(live, self._index)
        self._index += 1
        return not self._stuck(step, delivered)

    def _arrive(self) -> int:
        """Add the requests whose time has come; return how many."""
        arrived = 0
        while self._next is not None and self._next.request.arrival_ns <= self._now:
            seq, child, request, max_tokens = self._next
            live = Live(request, seq, child, max_tokens, self._settings)
            self._records[live] = _Record(self._index)
            self._longest = max(self._longest, request.prompt + max_tokens)
            self._scheduler.add(live)
            self._next = next(self._jobs, None)
            arrived += 1
        return arrived

    def _note(self, step: Step, end: int) -> None:
        for live, _, hit in step.lookups:
            record = self._records[live]
            if record.first_sched_step is None:
                record.first_sched_step, record.first_sched_ns = self._index, self._now
                record.hit_first = hit if self._settings.prefix_caching else None
        for share in step.shares:
            record = self._records[share.live]
            if share.samples and record.first_token_step is None:
                record.first_token_step, record.first_token_ns = self._index, end

    def _row(
        self, step: Step, arrived: int, after: tuple[int, int, int, int], finished: int, cost: tuple[int, int, int]
    ) -> StepRow:
        running, waiting, used, cached = after
        tokens, read, duration = cost
        decodes = sum(map(_decodes, step.shares))
        caching = self._settings.prefix_caching
        first = [lookup for lookup in step.lookups if not lookup[0].preemptions]
        again = [lookup for lookup in step.lookups if lookup[0].preemptions]
        return StepRow(
            step=self._index,
            t_ns=self._now,
            arrived=arrived,
            running=running,
            waiting=waiting,
            scheduled_reqs=len(step.shares),
            prefill_tokens=tokens - decodes,
            decode_tokens=decodes,
            new_reqs=len(first),
            resumed_reqs=len(again),
            preempted=len(step.preempted),
            used_blocks=used,
            cached_hashes=cached,
            evicted=step.evicted,
            hit_queried=sum(asked for _, asked, _ in first) if caching else 0,
            hit_tokens=sum(hit for _, _, hit in first),
            pre_queried=sum(asked for _, asked, _ in again) if caching else 0,
            pre_hit=sum(hit for _, _, hit in again),
            finished=finished,
            used_blocks_end=self._scheduler.cache.pool.used,
            kv_read_tokens=read,
            dur_ns=duration,
        )

    def _stuck(self, step: Step, delivered: Step | None) -> bool:
        """Whether nothing will ever come of turning on: then say so."""
        self._dry = 0 if any(share.samples for share in step.shares) else self._dry + 1
        if self._dry > patience(self._longest):
            self.status = "no_progress"
        elif step.shares or step.preempted or self._scheduler.running or (delivered and delivered.shares):
            return False
        elif self._settings.policy == "priority" and self._next is not None:
            self._now = self._next.request.arrival_ns
            return False
        else:
            self.status = "head_of_line_blocked"
        for live in list(self._records):
            self._emit(live, None)
        return True

    def _emit(self, live: Live, finish_step: int | None) -> None:
        record = self._records.pop(live)
        row = RequestRow(
            seq=live.seq,
            row=live.request.row,
            child=live.child,
            prompt_len=live.prompt,
            max_tokens=live.max_tokens,
            arrival_ns=live.request.arrival_ns,
            arrival_step=record.arrival_step,
            first_sched_step=record.first_sched_step,
            first_token_step=record.first_token_step,
            finish_step=finish_step,
            finish_ns=None if finish_step is None else self._now,
            preemptions=live.preemptions,
            hit_first=record.hit_first,
            output_tokens=live.known - live.prompt,
        )
        self._on_request(row, Timing(record.first_sched_ns, record.first_token_ns))


def _decodes(share: Share) -> bool:
    return share.tokens == 1 and share.samples and share.start >= share.live.prompt
