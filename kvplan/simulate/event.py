"""The event engine: the figures of the step-by-step one, by not doing again what is the same from step to step.

While nobody arrives, finishes or waits for room, every running request computes one token a step (decoders.py). Such a
step costs a few additions, however many requests run; only arrivals, admissions, prompts in chunks, finishes and
preemptions touch a request.

It runs one group of full attention, first come first served, without a long-prefill threshold: then at most one
request is in the middle of its prompt, and it is the last in the list, as it leaves nothing of the budget to others.
Everything else is for the step-by-step engine, which defines what is right here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from kvplan.simulate.clock import PS
from kvplan.simulate.decoders import Decoders
from kvplan.simulate.event_cache import EventCache
from kvplan.simulate.event_live import Counts, EventLive
from kvplan.simulate.replay import Job, Status, patience
from kvplan.simulate.series import RequestSink, StepRow, StepSink, Timing
from kvplan.simulate.settings import Settings

_ROW = tuple.__new__  # 0.25 us a row; StepRow(...) takes 0.6, as much as half of a quiet step


def runs_events(settings: Settings) -> bool:
    """Say whether the event engine covers these settings."""
    return settings.plain and settings.policy == "fcfs" and not settings.long_prefill_token_threshold


def run_events(jobs: Iterable[Job], settings: Settings, on_step: StepSink, on_request: RequestSink) -> Status:
    """Replay the jobs; the sinks get the rows, requests in the order in which they finish."""
    replay = _Replay(jobs, settings, on_step, on_request)
    while replay.turn():
        pass
    return replay.status


class _Replay:
    def __init__(self, jobs: Iterable[Job], settings: Settings, on_step: StepSink, on_request: RequestSink) -> None:
        self.status: Status = "complete"
        self._settings = settings
        self._size = settings.block_size
        self._lag = settings.async_scheduling
        self._jobs: Iterator[Job] = iter(jobs)
        self._next = next(self._jobs, None)
        self._on_step, self._on_request = on_step, on_request
        self._now = self._index = self._ranks = 0
        self._cache = EventCache(settings)
        self._pool = self._cache.pool
        self._waiting: deque[EventLive] = deque()
        self._running: dict[EventLive, None] = {}  # in the order of admission
        self._partial: EventLive | None = None  # in the middle of its prompt
        self._blocked = False  # the head of the queue was refused, and nothing has happened that lets it in
        self._decoders = Decoders(settings, self._pool)
        self._ending: list[EventLive] = []  # had their last step, and wait for its token
        self._scheduled_before = 0
        self._dry = 0  # steps in a row in which nobody sampled
        self._longest = 0

    def turn(self) -> bool:
        """Run one step, or many that are alike; False where there is none left to run."""
        arrived = self._arrive()
        if not self._running and not self._waiting:
            if self._next is None:
                return False
            self._now = self._next.request.arrival_ns
        elif arrived or not self._coast():
            return self._step(arrived)
        return True

    def _arrive(self) -> int:
        arrived = 0
        while self._next is not None and self._next.request.arrival_ns <= self._now:
            job = self._next
            self._waiting.append(EventLive(job, self._settings, self._index))
            self._longest = max(self._longest, job.request.prompt + job.max_tokens)
            self._next = next(self._jobs, None)
            arrived += 1
        return arrived

    def _coast(self) -> bool:
        """Run steps in which everybody decodes and nothing else happens; False if the next one is no such step."""
        decoders, pool, clock = self._decoders, self._pool, self._settings.clock
        if self._partial or self._ending or not decoders.count:
            return False
        full = len(self._running) == self._settings.max_num_seqs
        if self._waiting and not full and (not self._blocked or decoders.writers):
            return False
        running, waiting, decoding = len(self._running), len(self._waiting), decoders.count
        until = decoders.next_end() + (1 if self._lag else 0)
        arrival = self._next.request.arrival_ns if self._next else None
        index, now, read = self._index, self._now, decoders.base_sum + decoding * self._index
        step_ps = clock.step_ps + (clock.token_ps + clock.request_ps) * decoding
        while index < until and (arrival is None or now < arrival):
            taken = decoders.taken(index)
            if taken > pool.free:
                break
            evicted = pool.evicted
            if taken:
                pool.take(taken)
            decoders.key(index)
            read += decoding
            duration = (step_ps + clock.kv_token_ps * read) // PS
            used = self._settings.usable - pool.free
            self._on_step(_ROW(StepRow, (
                index, now, 0, running, waiting, decoding, 0, decoding, 0, 0, 0, used, pool.cached,
                pool.evicted - evicted, 0, 0, 0, 0, 0, used, read, duration,
            )))  # fmt: skip
            now += duration
            index += 1
        if index == self._index:
            return False
        self._now, self._index = now, index
        self._scheduled_before, self._dry = decoding, 0
        return True

    def _step(self, arrived: int) -> bool:
        """Run one step in which anything may happen; False if nothing ever will again."""
        index, pool, counts = self._index, self._pool, Counts()
        evicted = pool.evicted
        if self._lag:
            self._stop(index - 1)
        self._decode(counts)
        decoding = self._decoders.count
        budget = self._settings.max_num_batched_tokens - decoding
        completed: list[EventLive] = []
        if self._partial:
            budget -= self._go_on(self._partial, budget, counts, completed)
        if not counts.preempted:
            self._admit(budget, counts, completed)
        read = self._decoders.base_sum + decoding * (index + 1) + counts.read
        tokens = decoding + counts.tokens
        duration = self._settings.clock.duration_ns(tokens, read, decoding + counts.chunks)
        running, waiting, cached = len(self._running), len(self._waiting), pool.cached
        used, evicted = self._settings.usable - pool.free, pool.evicted - evicted
        self._now += duration
        for live in completed:
            if live.first_token_step is None:
                live.first_token_step, live.first_token_ns = index, self._now
            self._decoders.join(live, index)
        finished = self._finish()
        self._on_step(_ROW(StepRow, (
            index, self._now - duration, arrived, running, waiting, decoding + counts.chunks,
            counts.tokens - counts.decodes, decoding + counts.decodes, counts.first, counts.again, counts.preempted,
            used, cached, evicted, counts.queried, counts.hit, counts.pre_asked, counts.pre_hit,
            finished, self._settings.usable - pool.free, read, duration,
        )))  # fmt: skip
        self._index += 1
        scheduled = decoding + counts.chunks
        acted = scheduled + counts.preempted + (self._scheduled_before if self._lag else 0)
        self._scheduled_before = scheduled
        return not self._stuck(decoding + len(completed), acted)

    def _decode(self, counts: Counts) -> None:
        """Serve everybody who decodes."""
        taken = self._decoders.taken(self._index)
        if taken <= self._pool.free:
            self._pool.take(taken)
        else:
            self._squeeze(counts)
        self._decoders.key(self._index)

    def _squeeze(self, counts: Counts) -> None:
        """Serve the decoding requests one by one, oldest first, preempting the newest where a block is missing."""
        for live in list(self._running):
            if live not in self._running:
                break  # everybody behind it is gone, too
            if not self._decoders.takes_block(live, self._index):
                continue
            while not self._pool.free:
                victim = next(reversed(self._running))
                self._preempt(victim, counts)
                if victim is live:
                    break
            else:
                self._pool.take(1)

    def _preempt(self, victim: EventLive, counts: Counts) -> None:
        del self._running[victim]
        if victim.decoding:
            self._decoders.leave(victim, self._index)
            victim.known = victim.computed + 1
        self._partial = None  # it is the last in the list, so it was the first to go
        self._cache.release(victim)
        self._waiting.appendleft(victim)
        victim.preemptions += 1
        victim.computed = victim.held = victim.keyed = 0
        victim.last = -1
        self._blocked = False
        counts.preempted += 1

    def _go_on(self, live: EventLive, budget: int, counts: Counts, completed: list[EventLive]) -> int:
        """Serve the request that is in the middle of its prompt; return the tokens it gets."""
        tokens = min(live.known - live.computed, budget)
        if not tokens:
            return 0
        lacking = -(-(live.computed + tokens) // self._size) - live.held
        if lacking > self._pool.free:
            self._preempt(live, counts)
            return 0
        self._pool.take(lacking)
        self._chunk(live, tokens, counts, completed)
        return tokens

    def _admit(self, budget: int, counts: Counts, completed: list[EventLive]) -> None:
        settings, pool, cache = self._settings, self._pool, self._cache
        while budget > 0 and self._waiting and len(self._running) < settings.max_num_seqs:
            live = self._waiting[0]
            hit = cache.lookup(live)
            tokens = live.known - hit.blocks * self._size
            if tokens > budget and not settings.chunked_prefill:
                break
            tokens = min(tokens, budget)
            # what is hit needs no new block, but what of it lies in the queue is taken out of it
            room = pool.free - (settings.watermark_blocks if self._running else 0) + hit.blocks - hit.lying
            held = -(-(hit.blocks * self._size + tokens) // self._size)
            if settings.reserve_full_isl and -(-live.known // self._size) > room:
                self._blocked = True
                break
            if held > room:
                break
            self._waiting.popleft()
            self._running[live] = None
            live.rank = self._ranks = self._ranks + 1
            cache.enter(live, hit)
            pool.take(held - hit.blocks)
            self._count_lookup(live, live.computed, counts)
            self._chunk(live, tokens, counts, completed)
            budget -= tokens

    def _count_lookup(self, live: EventLive, hit_tokens: int, counts: Counts) -> None:
        caching = self._settings.prefix_caching
        asked = live.known if caching else 0
        if live.preemptions:
            counts.again += 1
            counts.pre_asked += asked
            counts.pre_hit += hit_tokens
            return
        counts.first += 1
        counts.queried += asked
        counts.hit += hit_tokens
        live.first_sched_step, live.first_sched_ns = self._index, self._now
        live.hit_first = hit_tokens if caching else None

    def _chunk(self, live: EventLive, tokens: int, counts: Counts, completed: list[EventLive]) -> None:
        """Compute a part of the known tokens, whose blocks are taken, and key what becomes full."""
        self._blocked = False  # it may have keyed what the head of the queue can hit
        counts.chunks += 1
        counts.tokens += tokens
        counts.decodes += tokens == 1 and live.computed >= live.prompt and live.computed + 1 == live.known
        live.computed += tokens
        counts.read += live.computed
        live.held = -(-live.computed // self._size)
        self._cache.key(live, live.computed // self._size)
        if live.computed == live.known:
            self._partial = None
            completed.append(live)
        else:
            self._partial = live

    def _stop(self, index: int) -> None:
        """Those whose last step this was keep their blocks and their place until its token comes."""
        for live in self._decoders.ended(index):
            if live.decoding:
                self._decoders.leave(live, index + 1)
            self._ending.append(live)

    def _finish(self) -> int:
        """Deliver the tokens that are due; requests that are finished free their blocks."""
        if self._lag:
            finished, self._ending = self._ending, []
        else:
            finished = self._decoders.ended(self._index)
        finished.sort(key=_rank)
        for live in finished:
            if live.decoding:
                self._decoders.leave(live, self._index + 1)
            if live in self._running:
                del self._running[live]
                self._cache.key(live, live.computed // self._size)
                self._cache.release(live)
            else:  # preempted while its last token was in flight
                self._waiting.remove(live)
            live.known = live.prompt + live.job.max_tokens
            self._emit(live, self._index)
        if finished:
            self._blocked = False
        return len(finished)

    def _stuck(self, sampled: int, acted: int) -> bool:
        """Whether nothing will ever come of turning on: then say so."""
        self._dry = 0 if sampled else self._dry + 1
        if self._dry > patience(self._longest):
            self.status = "no_progress"
        elif acted or self._running:
            return False
        else:
            self.status = "head_of_line_blocked"
        for live in (*self._running, *self._waiting):
            self._emit(live, None)
        return True

    def _emit(self, live: EventLive, finish_step: int | None) -> None:
        self._on_request(live.row(finish_step, self._now), Timing(live.first_sched_ns, live.first_token_ns))


def _rank(live: EventLive) -> int:
    return live.rank
