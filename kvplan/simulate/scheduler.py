"""vLLM 0.33's scheduler, a step at a time: the executable definition of `kvplan simulate`.

There is no prefill and no decode phase. A request has N known tokens (its prompt and what was sampled) and C computed
ones, whose keys and values are in the pool, and wants k = N - C tokens each step. `Scheduler.step` gives them out:

    1. running requests first, oldest first, while the token budget lasts; where a block is missing, the newest running
       request is preempted (the least important one under the priority policy) and the request tries again
    2. waiting requests, unless something was preempted: look the prefix up, see whether the whole sequence fits, and
       take blocks for the first chunk; the first that does not fit stops the queue
    3. C += k; whoever reached N samples a token

and `Scheduler.deliver` brings the sampled tokens: N += 1, and finished requests free their blocks. Under asynchronous
scheduling a step is scheduled before the tokens of the one before it are delivered: `pending` of a request are tokens
sampled but not known, `in_flight` tokens scheduled but not delivered.

Rules that are easy to miss stand beside the code. They were read in the engine's source and hold in its own replays.
"""

from __future__ import annotations

from bisect import insort
from collections import deque

from kvplan.simulate.live import Live, Share, Step
from kvplan.simulate.manager import CacheManager
from kvplan.simulate.settings import Settings


class Scheduler:
    """The queues and the rules of who is served; `running` is in the order of admission."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.cache = CacheManager(settings)
        self.running: list[Live] = []
        self.waiting: deque[Live] = deque()

    def add(self, live: Live) -> None:
        """Put a new request at the end of the waiting queue, or where its priority puts it."""
        if self.settings.policy == "fcfs":
            self.waiting.append(live)
        else:
            insort(self.waiting, live, key=_place)

    def step(self) -> Step:
        """Schedule one step."""
        step = Step(self.settings.max_num_batched_tokens)
        evicted = self.cache.pool.evicted
        # a long prompt is held back only where it could starve another request
        alone = len(self.running) + len(self.waiting) <= 1
        threshold = 0 if alone else self.settings.long_prefill_token_threshold
        self._run(step, threshold)
        if not step.preempted:
            self._admit(step, threshold)
        for share in step.shares:
            live = share.live
            live.computed += share.tokens
            live.in_flight += share.tokens
            share.samples = live.computed == live.known + live.pending
            if share.samples and self.settings.async_scheduling:
                live.pending += 1
        step.evicted = self.cache.pool.evicted - evicted
        return step

    def deliver(self, step: Step) -> list[Live]:
        """Bring a step's sampled tokens, in the order of its shares; return the requests that are finished."""
        finished = []
        for share in step.shares:
            live = share.live
            live.in_flight -= share.tokens
            # scheduled before a preemption: the token still counts, but the blocks behind it are gone
            stale = live.stale > 0
            if stale:
                live.stale -= share.tokens
            if not share.samples:
                continue
            live.known += 1
            if live.pending and not stale:
                live.pending -= 1
                self.cache.give_keys(live, live.computed - live.in_flight)
            if live.known - live.prompt >= live.max_tokens or live.known >= self.settings.max_model_len:
                self._leave(live)
                finished.append(live)
        return finished

    def _run(self, step: Step, threshold: int) -> None:
        """Serve the running requests in order."""
        for live in tuple(self.running):
            if step.budget <= 0:
                break
            if live in step.preempted or _ends(live):
                continue
            tokens = _capped(live.known + live.pending - live.computed, threshold)
            tokens = min(tokens, step.budget, self.settings.max_model_len - 1 - live.computed)
            if tokens > 0 and self._grow(live, tokens, step):
                step.shares.append(Share(live, live.computed, tokens))
                step.budget -= tokens

    def _grow(self, live: Live, tokens: int, step: Step) -> bool:
        """Give a running request blocks for its tokens, preempting as long as they lack; False if that met itself."""
        while not self.cache.grow(live, tokens):
            # of two that are equally unimportant, max() takes the one that was admitted first, as the engine does
            victim = self.running[-1] if self.settings.policy == "fcfs" else max(self.running, key=_rank)
            self._preempt(victim, step)
            if victim is live:
                return False
        return True

    def _preempt(self, victim: Live, step: Step) -> None:
        """Take everything from a request but its tokens, and put it in front of the waiting queue.

        Its keyed blocks can still be hit. By priority it may have been served in this step: that is given back.
        """
        self.running.remove(victim)
        for share in step.shares:
            if share.live is victim:
                step.shares.remove(share)
                step.budget += share.tokens
                break
        self.cache.free(victim)
        victim.computed = victim.pending = 0
        # delivered before the next step() is called, as no more than two steps are in flight
        victim.stale = victim.in_flight
        victim.preemptions += 1
        step.preempted.append(victim)
        if self.settings.policy == "fcfs":
            self.waiting.appendleft(victim)
        else:
            insort(self.waiting, victim, key=_place)

    def _admit(self, step: Step, threshold: int) -> None:
        """Admit from the head of the waiting queue; the first that does not fit stops those behind it."""
        while step.budget > 0 and self.waiting and len(self.running) < self.settings.max_num_seqs:
            live = self.waiting[0]
            hits, hit_tokens = self.cache.lookup(live)
            tokens = _capped(live.known - hit_tokens, threshold)
            if tokens > step.budget and not self.settings.chunked_prefill:
                break
            tokens = min(tokens, step.budget)
            # the watermark is for those who are admitted beside others, not for those who already run
            keep = self.settings.watermark_blocks if self.running else 0
            if not self.cache.fits(live, hits, hit_tokens, tokens, keep=keep):
                break
            self.waiting.popleft()
            self.running.append(live)
            self.cache.admit(live, hits, hit_tokens, tokens)
            step.lookups.append((live, live.known, hit_tokens))
            step.shares.append(Share(live, hit_tokens, tokens))
            step.budget -= tokens

    def _leave(self, live: Live) -> None:
        if live in self.running:
            self.running.remove(live)
            self.cache.free(live)
        else:  # its last token was in flight when it was preempted
            self.waiting.remove(live)


def _capped(tokens: int, threshold: int) -> int:
    return min(tokens, threshold) if threshold else tokens


def _ends(live: Live) -> bool:
    """Whether its last token is being sampled already: it keeps its blocks and its place until that is delivered."""
    return live.pending > 0 and live.computed + 2 - live.pending >= live.prompt + live.max_tokens


def _rank(live: Live) -> tuple[int, int]:
    """What the priority policy orders by: the smallest is admitted first, the largest is preempted first."""
    return live.request.priority, live.request.arrival_ns


def _place(live: Live) -> tuple[int, int, int]:
    """Where a request stands in a waiting queue by priority."""
    return *_rank(live), live.seq
