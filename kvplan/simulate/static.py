"""Static batching: a batch starts together and ends with its longest request; who is done waits for it.

What servers did before continuous batching, on the same pool and clock, for comparison. A request reserves its whole
length; prompts are computed first, then all decode together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kvplan.simulate.replay import Job, Status
from kvplan.simulate.series import RequestRow, RequestSink, StepRow, StepSink, Timing
from kvplan.simulate.settings import Settings
from kvplan.simulate.tables import blocks_for


def run_static(jobs: Iterable[Job], settings: Settings, on_step: StepSink, on_request: RequestSink) -> Status:
    """Replay the jobs in static batches. Rows mean what they mean elsewhere: `running` counts those that wait, too."""
    replay = _Replay(jobs, settings, on_step, on_request)
    while batch := replay.next_batch():
        replay.run(batch)
    return "complete"


_NOTHING = StepRow(*[0] * len(StepRow._fields))


class _Replay:
    def __init__(self, jobs: Iterable[Job], settings: Settings, on_step: StepSink, on_request: RequestSink) -> None:
        self._settings = settings
        self._jobs = iter(jobs)
        self._next = next(self._jobs, None)
        self._waiting: deque[tuple[Job, int]] = deque()
        self._now = self._index = self._arrived = 0
        self._on_step, self._on_request = on_step, on_request

    def next_batch(self) -> list[tuple[Job, int]]:
        """Take from the queue what fits with its whole length."""
        if not self._waiting and self._next is not None:
            self._now = max(self._now, self._next.request.arrival_ns)
        self._arrive()
        batch: list[tuple[Job, int]] = []
        free = self._settings.usable
        while self._waiting and len(batch) < self._settings.max_num_seqs:
            job, _ = self._waiting[0]
            free -= self._reserved(job)
            if free < 0 and batch:
                break
            batch.append(self._waiting.popleft())
        return batch

    def run(self, batch: list[tuple[Job, int]]) -> None:
        """Compute the prompts, then a token of everybody who has one left, until nobody has."""
        begin = (self._index, self._now)
        prompts = sum(job.request.prompt for job, _ in batch)
        budget = self._settings.max_num_batched_tokens
        done = 0
        while done < prompts:
            tokens = min(budget, prompts - done)
            done += tokens
            self._step(batch, tokens, decodes=0, read=done, first=len(batch) if done == tokens else 0)
        first = (self._index - 1, self._now)
        self._end(batch, 1, begin, first)
        for position in range(2, max(job.max_tokens for job, _ in batch) + 1):
            going = [job for job, _ in batch if job.max_tokens >= position]
            read = sum(job.request.prompt for job in going) + (position - 1) * len(going)
            self._step(batch, 0, decodes=len(going), read=read, first=0)
            self._end(batch, position, begin, first)

    def _step(self, batch: list[tuple[Job, int]], prefill: int, *, decodes: int, read: int, first: int) -> None:
        clock = self._settings.clock
        duration = clock.duration_ns(prefill + decodes, read, decodes or len(batch))
        used = sum(self._reserved(job) for job, _ in batch)
        row = _NOTHING._replace(
            step=self._index,
            t_ns=self._now,
            arrived=self._arrived,
            running=len(batch),
            waiting=len(self._waiting),
            scheduled_reqs=decodes or len(batch),
            prefill_tokens=prefill,
            decode_tokens=decodes,
            new_reqs=first,
            used_blocks=used,
            used_blocks_end=used,
            kv_read_tokens=read,
            dur_ns=duration,
        )
        self._arrived = 0
        self._on_step(row)
        self._now += duration
        self._index += 1
        self._arrive()

    def _arrive(self) -> None:
        while self._next is not None and self._next.request.arrival_ns <= self._now:
            self._waiting.append((self._next, self._index))
            self._next = next(self._jobs, None)
            self._arrived += 1

    def _end(self, batch: list[tuple[Job, int]], position: int, begin: tuple[int, int], first: tuple[int, int]) -> None:
        for job, arrival_step in batch:
            if job.max_tokens == position:
                row = RequestRow(
                    job.seq, job.request.row, job.child, job.request.prompt, job.max_tokens, job.request.arrival_ns,
                    arrival_step, begin[0], first[0], self._index - 1, self._now, 0, None, position,
                )  # fmt: skip
                self._on_request(row, Timing(begin[1], first[1]))

    def _reserved(self, job: Job) -> int:
        return blocks_for(job.request.prompt + job.max_tokens - 1, self._settings.block_size)
