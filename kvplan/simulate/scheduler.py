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
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from kvplan.simulate.blocks import NULL, Pool
from kvplan.simulate.content import Chain, Piece, block_contents, token_spans
from kvplan.simulate.request import Request
from kvplan.simulate.settings import Settings
from kvplan.simulate.tables import admission_cap, blocks_for, dropped, keyed_positions, longest_hit


class Live:
    """A request inside the engine. Lengths are tokens; a table is a list of block ids a group."""

    def __init__(self, request: Request, seq: int, child: int, max_tokens: int, settings: Settings) -> None:
        self.request = request
        self.seq = seq
        self.child = child
        self.prompt = request.prompt
        self.max_tokens = max_tokens
        self.known = request.prompt
        self.computed = 0
        self.pending = 0
        self.in_flight = 0
        self.stale = 0
        self.tables: list[list[int]] = [[] for _ in settings.groups]
        self.keyed = [0] * len(settings.groups)
        self.junction = 0
        self.preemptions = 0
        self.finished = False
        self.chain: list[int] = []
        self.contents: Iterator[tuple[Piece, ...]] = block_contents(
            token_spans(request, seq, max_tokens), settings.block_size
        )

    @property
    def outputs(self) -> int:
        """Tokens that were sampled and delivered."""
        return self.known - self.prompt

    @property
    def importance(self) -> tuple[int, int, int]:
        """What the priority policy orders by: the smallest is served first, the largest preempted first."""
        return self.request.priority, self.request.arrival_ns, self.seq


@dataclass(slots=True)
class Share:
    """What a step gives a request: `tokens` from position `start` on; it samples if that reaches the end."""

    live: Live
    start: int
    tokens: int
    samples: bool = False


@dataclass(slots=True)
class Step:
    """What one step did. Lookups are counted when the admission succeeds."""

    shares: list[Share] = field(default_factory=list)
    preempted: list[Live] = field(default_factory=list)
    admitted: list[Live] = field(default_factory=list)
    lookups: list[tuple[Live, int, int]] = field(default_factory=list)  # request, tokens asked, tokens hit
    evicted: int = 0


class Scheduler:
    """The queues, the pool and the rules; `running` is in the order of admission."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pool = Pool(settings.num_blocks)
        self.running: list[Live] = []
        self.waiting: deque[Live] | list[Live] = deque() if settings.policy == "fcfs" else []
        self._chain = Chain()
        self._caps = [admission_cap(window, settings) for window in settings.groups]

    def add(self, live: Live) -> None:
        """Put a new request at the end of the waiting queue, or where its priority puts it."""
        if self.settings.policy == "fcfs":
            self.waiting.append(live)
        else:
            insort(self.waiting, live, key=lambda other: other.importance)

    def step(self) -> Step:
        """Schedule one step."""
        step = Step()
        evicted = self.pool.evicted
        budget = self._run(step, self._threshold())
        # a step that preempted admits nobody: who was preempted would come straight back
        if not step.preempted:
            self._admit(step, budget, self._threshold())
        for share in step.shares:
            live = share.live
            live.computed += share.tokens
            live.in_flight += share.tokens
            share.samples = live.computed == live.known + live.pending
            if share.samples and self.settings.async_scheduling:
                live.pending += 1
        step.evicted = self.pool.evicted - evicted
        return step

    def deliver(self, step: Step) -> list[Live]:
        """Bring a step's sampled tokens, in the order it was scheduled in; return the requests that finished."""
        finished = []
        for share in step.shares:
            live = share.live
            live.in_flight -= share.tokens
            stale = live.stale > 0
            if stale:
                live.stale -= share.tokens
            if not share.samples:
                continue
            live.known += 1
            if not stale and live.pending:
                live.pending -= 1
                self._give_keys(live, live.computed - live.in_flight)
            if live.outputs >= live.max_tokens or live.known >= self.settings.max_model_len:
                self._finish(live)
                finished.append(live)
        return finished

    def _threshold(self) -> int:
        """A long prompt is held back only where it could starve another request; alone it takes the whole budget."""
        return self.settings.long_prefill_token_threshold if len(self.running) + len(self.waiting) > 1 else 0

    def _run(self, step: Step, threshold: int) -> int:
        """Serve the running requests; return what is left of the token budget."""
        budget = self.settings.max_num_batched_tokens
        index = 0
        while index < len(self.running) and budget > 0:
            live = self.running[index]
            tokens = 0 if self._ends(live) else self._wanted(live, threshold, budget)
            if tokens == 0:
                index += 1
                continue
            given_back, survived = self._make_room(live, tokens, step)
            budget += given_back
            if survived:
                step.shares.append(Share(live, live.computed, tokens))
                budget -= tokens
            elif self.settings.policy == "fcfs":
                break  # it preempted itself: nobody is left behind it
            index = self.running.index(live) + 1 if survived else index - _before(step, index)
        return budget

    def _ends(self, live: Live) -> bool:
        """Whether its last token is being sampled already: it keeps its blocks and its place until that arrives."""
        return live.pending > 0 and live.computed + 2 - live.pending >= live.prompt + live.max_tokens

    def _wanted(self, live: Live, threshold: int, budget: int) -> int:
        tokens = live.known + live.pending - live.computed
        if 0 < threshold < tokens:
            tokens = threshold
        return min(tokens, budget, self.settings.max_model_len - 1 - live.computed)
