"""The requests that decode, one token a step each: counted, not visited.

How many blocks a step takes depends on how many requests are at which place of a block, so there is a count for each
remainder; what a request has computed follows from the step's number and its `base`.
"""

from __future__ import annotations

from heapq import heappop, heappush

from kvplan.simulate.event_live import EventLive
from kvplan.simulate.extents import Extents
from kvplan.simulate.settings import Settings


class Decoders:
    """`count` requests, which have computed `base_sum` + `count` * t tokens together before step t."""

    __slots__ = (
        "_ahead", "_caching", "_end_steps", "_ends", "_fresh", "_plain", "_pool", "_size", "_takes", "base_sum",
        "count", "writers",
    )  # fmt: skip

    def __init__(self, settings: Settings, pool: Extents) -> None:
        self.count = self.base_sum = 0
        self.writers: dict[int, dict[EventLive, None]] = {}  # those that write, by remainder
        self._pool = pool
        self._size = settings.block_size
        self._caching = settings.prefix_caching
        # a block that decoding fills is keyed in the step that fills it; a step later where its token comes later
        self._ahead = 0 if settings.async_scheduling else 1
        self._takes: dict[int, int] = {}
        self._plain: dict[int, int] = {}  # of those, the ones whose keys are merely counted
        self._fresh = 0  # of those, the ones that begin behind a block that was keyed with the prompt
        self._ends: dict[int, list[EventLive]] = {}  # by their last step
        self._end_steps: list[int] = []

    def taken(self, index: int) -> int:
        """Return how many blocks a step takes."""
        return self._takes.get(index % self._size, 0)

    def takes_block(self, live: EventLive, index: int) -> bool:
        """Whether a request takes one in that step."""
        return live.decoding and (live.base + index) % self._size == 0

    def key(self, index: int) -> None:
        """Key the blocks that a step fills."""
        if not self._caching:
            return
        remainder = (index + self._ahead) % self._size
        self._pool.cached += self._plain.get(remainder, 0) - self._fresh
        self._fresh = 0
        for live in self.writers.get(remainder, ()):
            keyed = (live.base + index + self._ahead) // self._size
            self._pool.fill(live.place, keyed - live.keyed)
            live.keyed = keyed

    def join(self, live: EventLive, index: int) -> None:
        """Take a request in that has computed all it knew in a step, and sampled; it may have no step left."""
        left = live.job.max_tokens - (live.known + 1 - live.prompt)
        live.last = index + left
        if live.last not in self._ends:
            self._ends[live.last] = []
            heappush(self._end_steps, live.last)
        self._ends[live.last].append(live)
        if not left:
            return
        live.decoding = True
        live.base = live.known - index - 1
        self.count += 1
        self.base_sum += live.base
        remainder = -live.base % self._size
        self._takes[remainder] = self._takes.get(remainder, 0) + 1
        if live.writes:
            self.writers.setdefault(remainder, {})[live] = None
        elif self._caching:
            self._plain[remainder] = self._plain.get(remainder, 0) + 1
            self._fresh += not self._ahead and live.known % self._size == 0

    def leave(self, live: EventLive, index: int) -> None:
        """Let a request go, and bring its own figures up to date as of before a step."""
        remainder = -live.base % self._size
        self._takes[remainder] -= 1
        if live.writes:
            del self.writers[remainder][live]
            if not self.writers[remainder]:
                del self.writers[remainder]
        elif self._caching:
            self._plain[remainder] -= 1
            begins_now = live.base + index == live.known
            self._fresh -= begins_now and not self._ahead and live.known % self._size == 0
        self.count -= 1
        self.base_sum -= live.base
        live.decoding = False
        live.computed = live.base + index
        live.held = -(-live.computed // self._size)
        if self._caching:
            live.keyed = max(live.keyed, (live.computed + self._ahead - 1) // self._size)

    def ended(self, index: int) -> list[EventLive]:
        """Return, once, the requests whose last step this was; those that were preempted meanwhile have none."""
        return [live for live in self._ends.pop(index, ()) if live.last == index]

    def next_end(self) -> int:
        """Return the next step that may be somebody's last."""
        while self._end_steps[0] not in self._ends:
            heappop(self._end_steps)
        return self._end_steps[0]
