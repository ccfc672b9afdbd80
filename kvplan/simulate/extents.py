"""The pool of the event engine: the same contents and the same eviction order as `blocks`, without single blocks.

Which id a block has decides nothing, so free blocks without a key are a number. Blocks with a key are kept in
stretches of nodes (tree.py): one node stands for a run of them with one chain of contents, so a 512-token id of a trace
is hashed once for its 32 blocks of 16. Two facts about full attention carry this:

    * a key is present only with all keys before it, so a lookup is a walk and a node's keys are a prefix of it
    * unkeyed blocks are always handed out first, so the free queue is that number, then stretches by time of freeing

A key can have several blocks (nothing is de-duplicated). The first is the node's own, others are copies; where the
first is evicted, the oldest copy takes its place, wherever that is.
"""

from __future__ import annotations

from collections import OrderedDict

from kvplan.simulate.tree import Children, Node, Path, Place, Stretch


class Extents:
    """The pool in figures: `free` blocks, of them `blank` without a key; `cached` distinct keys; `evicted` so far."""

    __slots__ = ("blank", "cached", "evicted", "free", "queue", "root")

    def __init__(self, usable: int) -> None:
        self.free = self.blank = usable
        self.cached = self.evicted = 0
        self.queue: OrderedDict[Stretch, None] = OrderedDict()
        self.root: Children = {}

    def take(self, count: int) -> None:
        """Hand out blocks: those without a key first, then what was freed longest ago, from its tail."""
        self.free -= count
        if count <= self.blank:
            self.blank -= count
            return
        lacking = count - self.blank
        self.blank = 0
        self.evicted += lacking
        while lacking:
            oldest = next(iter(self.queue))
            lacking -= self._evict(oldest, lacking)

    def walk(self, place: Place, limit: int) -> tuple[list[tuple[Node, int]], int, int]:
        """Follow cached keys down, at most `limit` blocks.

        Return the nodes with the depth that is hit in each, the blocks hit, and how many of them lie in the queue.
        """
        found: list[tuple[Node, int]] = []
        hit = lying = 0
        children = self.root
        for key, blocks in place.steps:
            node = children.get(key)
            if node is None or hit == limit:
                break
            depth = min(blocks, node.present, limit - hit)
            found.append((node, depth))
            hit += depth
            for stretch in reversed(node.queued):
                if stretch.low >= depth:
                    break
                lying += min(stretch.high, depth) - stretch.low
            if depth < blocks:
                break
            children = node.children
        return found, hit, lying

    def enter(self, place: Place, found: list[tuple[Node, int]]) -> None:
        """Reference what a walk has found."""
        for node, depth in found:
            self.hold(node, depth)
            held = (0, depth)
            node.holds[held] = node.holds.get(held, 0) + 1
            place.path.append(Stretch(node, 0, depth))
        place.at, place.depth = len(found), 0
        if found and found[-1][1] < place.steps[len(found) - 1][1]:
            place.at, place.depth = len(found) - 1, found[-1][1]

    def hold(self, node: Node, depth: int) -> None:
        """Take those of a node's first blocks that lie in the queue out of it."""
        queued = node.queued
        while queued and queued[-1].low < depth:
            stretch = queued[-1]
            upto = min(stretch.high, depth)
            self.free -= upto - stretch.low
            stretch.low = upto
            if upto < stretch.high:
                break
            queued.pop()
            del self.queue[stretch]

    def fill(self, place: Place, count: int) -> None:
        """Key `count` more blocks of a request. What is cached already becomes a copy, the rest is the node's own."""
        while count and place.at < len(place.steps):
            key, blocks = place.steps[place.at]
            last = place.path[-1] if place.path else None
            if place.depth == 0 or last is None:
                children = self.root if last is None else last.node.children
                node = children.get(key) or children.setdefault(key, Node(children, key))
                last = None
            else:
                node = last.node
            depth = place.depth
            if depth < node.present:
                upto = depth + 1
                copy = Stretch(node, depth, upto, copy=True, path=place.path)
                place.path.append(copy)
                node.copies.append(copy)
            else:
                upto = min(blocks, depth + count)
                _add_own(place.path, last, node, depth, upto)
                node.present = upto
                self.cached += upto - depth
            count -= upto - depth
            place.depth = upto
            if upto == blocks:
                place.at += 1
                place.depth = 0

    def release_whole(self, node: Node, blocks: int) -> None:
        """Let go of blocks that only one request could hold."""
        node.present = blocks
        lying = Stretch(node, 0, blocks)
        node.queued.append(lying)
        self.queue[lying] = None
        self.free += blocks

    def release(self, place: Place) -> None:
        """Let go of a request's path from its end; what nobody else holds goes to the back of the queue."""
        for stretch in reversed(place.path):
            if stretch.copy:
                stretch.path = None
                self.queue[stretch] = None
                self.free += stretch.high - stretch.low
            else:
                self._release_own(stretch)
        place.path.clear()
        place.at = place.depth = 0

    def release_blank(self, count: int) -> None:
        """Let go of blocks without a key."""
        self.free += count
        self.blank += count

    def _release_own(self, stretch: Stretch) -> None:
        node, held = stretch.node, (stretch.low, stretch.high)
        holds = node.holds
        if holds[held] > 1:
            holds[held] -= 1
            return
        del holds[held]
        for low, high in _not_in(holds, stretch.low, stretch.high) if holds else (held,):
            lying = Stretch(node, low, high)
            self.queue[lying] = None
            self.free += high - low
            _insert(node.queued, lying)

    def _evict(self, oldest: Stretch, most: int) -> int:
        """Take blocks from the tail of the oldest stretch; return how many."""
        node = oldest.node
        if oldest.copy:
            node.copies.remove(oldest)
            del self.queue[oldest]
            return 1
        count = 1 if node.copies else min(most, oldest.high - oldest.low)
        oldest.high -= count
        assert node.copies or oldest.high == node.present - count
        if oldest.high == oldest.low:
            node.queued.remove(oldest)
            del self.queue[oldest]
        if not (node.copies and self._promote(node, oldest.high)):
            node.present -= count
            self.cached -= count
            if node.present == 0 and node.home is not None:
                del node.home[node.key]
        return count

    def _promote(self, node: Node, block: int) -> bool:
        """Make the oldest copy of a block the node's own; False where it has none."""
        copy = next((copy for copy in node.copies if copy.low == block), None)
        if copy is None:
            return False
        node.copies.remove(copy)
        copy.copy = False
        if copy.path is None:
            _insert(node.queued, copy)
        else:
            held = (block, block + 1)
            node.holds[held] = node.holds.get(held, 0) + 1
        return True


def _add_own(path: Path, last: Stretch | None, node: Node, low: int, high: int) -> None:
    """Hold new blocks of the node's own, as part of the last stretch where that goes on."""
    if last is None or last.copy:
        path.append(Stretch(node, low, high))
    else:
        held = (last.low, last.high)
        if node.holds[held] > 1:
            node.holds[held] -= 1
        else:
            del node.holds[held]
        last.high = high
        low = last.low
    node.holds[low, high] = node.holds.get((low, high), 0) + 1


def _not_in(holds: dict[tuple[int, int], int], low: int, high: int) -> list[tuple[int, int]]:
    """Return the parts of (low, high) that no hold covers, deepest first."""
    parts = [(low, high)]
    for start, end in holds:
        parts = [
            part
            for a, b in parts
            for part in ((max(a, end), b), (a, min(b, start)))
            if part[0] < part[1]
        ]  # fmt: skip
    return parts


def _insert(queued: list[Stretch], stretch: Stretch) -> None:
    """Keep the deepest first; as a rule what is freed lies above what was."""
    at = len(queued)
    while at and queued[at - 1].low < stretch.low:
        at -= 1
    queued.insert(at, stretch)
