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


@dataclass(slots=True)
class Share:
    """What a step gives a request: `tokens` from position `start` on; it samples if that reaches the end."""

    live: Live
    start: int
    tokens: int
    samples: bool = False


@dataclass(slots=True)
class Step:
    """What one step did. `budget` is the tokens still to give; lookups are counted when the admission succeeds."""

    budget: int
    shares: list[Share] = field(default_factory=list)
    preempted: list[Live] = field(default_factory=list)
    admitted: list[Live] = field(default_factory=list)
    lookups: list[tuple[Live, int, int]] = field(default_factory=list)  # request, tokens asked for, tokens hit
    evicted: int = 0


class Scheduler:
    """The queues, the pool and the rules; `running` is in the order of admission."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pool = Pool(settings.num_blocks)
        self.running: list[Live] = []
        self.waiting: deque[Live] = deque()
        self._chain = Chain()
        self._caps = [admission_cap(window, settings) for window in settings.groups]

    def add(self, live: Live) -> None:
        """Put a new request at the end of the waiting queue, or where its priority puts it."""
        if self.settings.policy == "fcfs":
            self.waiting.append(live)
        else:
            insort(self.waiting, live, key=_importance)

    def step(self) -> Step:
        """Schedule one step."""
        step = Step(self.settings.max_num_batched_tokens)
        evicted = self.pool.evicted
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
        step.evicted = self.pool.evicted - evicted
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
                self._give_keys(live, live.computed - live.in_flight)
            if live.known - live.prompt >= live.max_tokens or live.known >= self.settings.max_model_len:
                self._leave(live)
                finished.append(live)
        return finished

    def _run(self, step: Step, threshold: int) -> None:
        """Serve the running requests in order. They may use the last block: no gate, no watermark."""
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
        upto = live.computed + tokens
        while True:
            # also where the blocks then lack: what fell out of the window is gone
            self._drop_out_of_window(live)
            held = blocks_for(upto, self.settings.block_size)
            lacking = sum(max(0, held - len(table)) for table in live.tables)
            if lacking <= self.pool.free:
                break
            victim = self.running[-1] if self.settings.policy == "fcfs" else max(self.running, key=_importance)
            self._preempt(victim, step)
            if victim is live:
                return False
        self._fill_tables(live, upto)
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
        self._free(victim)
        victim.computed = victim.pending = 0
        # delivered before the next step() is called, as no more than two steps are in flight
        victim.stale = victim.in_flight
        victim.preemptions += 1
        step.preempted.append(victim)
        if self.settings.policy == "fcfs":
            self.waiting.appendleft(victim)
        else:
            insort(self.waiting, victim, key=_importance)

    def _admit(self, step: Step, threshold: int) -> None:
        """Admit from the head of the waiting queue; the first that does not fit stops those behind it."""
        while step.budget > 0 and self.waiting and len(self.running) < self.settings.max_num_seqs:
            live = self.waiting[0]
            hits, hit_tokens = self._lookup(live)
            tokens = _capped(live.known - hit_tokens, threshold)
            if tokens > step.budget and not self.settings.chunked_prefill:
                break
            tokens = min(tokens, step.budget)
            if not self._fits(live, hits, hit_tokens, tokens):
                break
            self.waiting.popleft()
            self.running.append(live)
            self._take_hits(live, hits, hit_tokens)
            live.computed = hit_tokens
            self._fill_tables(live, hit_tokens + tokens)
            step.admitted.append(live)
            step.lookups.append((live, live.known, hit_tokens))
            step.shares.append(Share(live, hit_tokens, tokens))
            step.budget -= tokens

    def _lookup(self, live: Live) -> tuple[list[list[int]], int]:
        """Return what the request can hit, a table a group, and how many tokens that is.

        The last token is never hit, as its output is wanted: a prompt that is cached whole computes its last block.
        """
        settings = self.settings
        if not settings.prefix_caching:
            return [[] for _ in settings.groups], 0
        limit = (live.known - 1) // settings.block_size
        hits, blocks, junction = longest_hit(
            self.pool, settings.groups, self._known_chain(live), limit, settings.block_size
        )
        live.junction = junction * settings.block_size
        return hits, blocks * settings.block_size

    def _fits(self, live: Live, hits: list[list[int]], hit_tokens: int, tokens: int) -> bool:
        """Whether the whole sequence, as far as it is known, fits now, and the first chunk of it.

        Only the chunk is taken and nothing is remembered: what running prompts still need is not kept for them.
        """
        settings = self.settings
        room = self.pool.free - (settings.watermark_blocks if self.running else 0)
        if settings.reserve_full_isl:
            whole = min(live.known, settings.max_model_len)
            if self._lacking(hits, hit_tokens, whole, self._caps) > room:
                return False
        return self._lacking(hits, hit_tokens, hit_tokens + tokens, [None] * len(hits)) <= room

    def _lacking(self, hits: list[list[int]], hit_tokens: int, upto: int, caps: list[int | None]) -> int:
        """Return the free blocks that it takes to hold `upto` tokens: new ones, and hit ones that nobody holds."""
        size = self.settings.block_size
        lacking = 0
        for window, table, cap in zip(self.settings.groups, hits, caps, strict=True):
            held = blocks_for(upto, size)
            if cap is not None:
                held = min(held, cap)
            gone = dropped(window, hit_tokens, size)
            lacking += max(0, held - max(gone, len(table)))
            lacking += sum(block != NULL and self.pool.refs[block] == 0 for block in table[gone:])
        return lacking

    def _take_hits(self, live: Live, hits: list[list[int]], hit_tokens: int) -> None:
        """Reference the hit blocks of all groups before any new block is taken; those out of the window stay out."""
        for group, (window, table) in enumerate(zip(self.settings.groups, hits, strict=True)):
            gone = dropped(window, hit_tokens, self.settings.block_size)
            self.pool.hold(table[gone:])
            live.tables[group] = [NULL] * gone + table[gone:]
            live.keyed[group] = len(live.tables[group])

    def _fill_tables(self, live: Live, upto: int) -> None:
        """Take the blocks for `upto` tokens and key those that become full.

        They can be hit from now on, before the GPU has written them: by the next request of this very step, too.
        """
        held = blocks_for(upto, self.settings.block_size)
        for table in live.tables:
            table += self.pool.take(max(0, held - len(table)))
        self._give_keys(live, min(upto, live.known))

    def _give_keys(self, live: Live, tokens: int) -> None:
        """Key the full blocks of the first `tokens` tokens that have no key yet."""
        if not self.settings.prefix_caching:
            return
        full = tokens // self.settings.block_size
        chain = self._known_chain(live)
        boundaries = [live.prompt - 1, *([live.junction] if live.junction else [])]
        for group, window in enumerate(self.settings.groups):
            start, table = live.keyed[group], live.tables[group]
            if start >= full:
                continue
            for position in keyed_positions(window, start, full, self.settings, boundaries):
                if table[position] != NULL:
                    self.pool.give_key(table[position], (group, chain[position]))
            live.keyed[group] = full

    def _drop_out_of_window(self, live: Live) -> None:
        """Free what no later token can see, counting only delivered tokens: steps in flight still read the rest."""
        for window, table in zip(self.settings.groups, live.tables, strict=True):
            last = min(dropped(window, live.computed - live.in_flight, self.settings.block_size), len(table))
            freed = []
            for position in range(last - 1, -1, -1):
                if table[position] == NULL:
                    break
                freed.append(table[position])
                table[position] = NULL
            self.pool.release(freed)

    def _leave(self, live: Live) -> None:
        live.finished = True
        if live in self.running:
            self.running.remove(live)
            self._free(live)
        else:  # its last token was in flight when it was preempted
            self.waiting.remove(live)

    def _free(self, live: Live) -> None:
        """Free a request's blocks group by group, each from its tail: the tail is evicted before the head."""
        for group, table in enumerate(live.tables):
            self.pool.release(reversed(table))
            live.tables[group] = []
            live.keyed[group] = 0

    def _known_chain(self, live: Live) -> list[int]:
        """Return the chain's numbers for the full blocks of the known tokens."""
        lacking = live.known // self.settings.block_size - len(live.chain)
        for content in islice(live.contents, max(0, lacking)):
            parent = live.chain[-1] if live.chain else live.request.salt
            live.chain.append(self._chain.number(parent, content))
        return live.chain


def _capped(tokens: int, threshold: int) -> int:
    return min(tokens, threshold) if threshold else tokens


def _ends(live: Live) -> bool:
    """Whether its last token is being sampled already: it keeps its blocks and its place until that is delivered."""
    return live.pending > 0 and live.computed + 2 - live.pending >= live.prompt + live.max_tokens


def _importance(live: Live) -> tuple[int, int, int]:
    """What the priority policy orders by: the smallest is served first, the largest is preempted first."""
    return live.request.priority, live.request.arrival_ns, live.seq
