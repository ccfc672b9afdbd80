"""What a request of the event engine hits, keys and frees: its path in the tree, and the tail that is its own."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.simulate.event_live import EventLive
from kvplan.simulate.extents import Extents
from kvplan.simulate.settings import Settings
from kvplan.simulate.tree import Node


class Hit(NamedTuple):
    """Blocks that a lookup found; `lying` of them are in the free queue, `behind` in the request's own tail."""

    nodes: list[tuple[Node, int]]
    blocks: int
    lying: int
    behind: int


_NOTHING = Hit([], 0, 0, 0)


class EventCache:
    """The pool, and how requests use it; nothing is keyed without prefix caching."""

    def __init__(self, settings: Settings) -> None:
        self.pool = Extents(settings.usable)
        self._size = settings.block_size
        self._caching = settings.prefix_caching

    def lookup(self, live: EventLive) -> Hit:
        """Return what a request can hit: never its last token, as its output is wanted."""
        if not self._caching:
            return _NOTHING
        nodes, blocks, lying = self.pool.walk(live.place, (live.known - 1) // self._size)
        # of a tail all or nothing is hit: it ends before the last known token, and its head is the last to be evicted
        behind = live.tail.present if blocks == live.shared else 0
        return Hit(nodes, blocks + behind, lying + behind, behind)

    def enter(self, live: EventLive, hit: Hit) -> None:
        """Reference what was hit."""
        self.pool.enter(live.place, hit.nodes)
        if hit.behind:
            self.pool.hold(live.tail, hit.behind)
        live.computed, live.keyed = hit.blocks * self._size, hit.blocks

    def key(self, live: EventLive, blocks: int) -> None:
        """Key a request's blocks up to a number of them."""
        if not self._caching:
            return
        along = min(blocks, live.shared) - live.keyed
        if along > 0:
            self.pool.fill(live.place, along)
        self.pool.cached += max(0, blocks - max(live.keyed, live.shared))
        live.keyed = blocks

    def release(self, live: EventLive) -> None:
        """Free everything: the tail first, then the path from its end; blocks without a key are blank."""
        behind = live.keyed - live.shared
        if behind > 0:
            self.pool.release_whole(live.tail, behind)
        self.pool.release(live.place)
        self.pool.release_blank(live.held - live.keyed)
