"""The block pool: one free queue, reference counts, and the map from keys to the blocks that hold them.

Block 0 is the null block, a placeholder for what a sliding window has dropped: taken at start, never freed or keyed.
The free queue holds blocks that nobody references. Some still have a key: they are hits until they are handed out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeAlias

NULL = 0
# (KV group, number of the prefix chain)
Key: TypeAlias = tuple[int, int]


class Pool:
    """Blocks 1 to `num_blocks` - 1, free in the order of their ids at first."""

    def __init__(self, num_blocks: int) -> None:
        self.usable = num_blocks - 1
        self.queue = OrderedDict.fromkeys(range(1, num_blocks))
        self.refs = [0] * num_blocks
        self.keys: list[Key | None] = [None] * num_blocks
        # Nothing is de-duplicated: a key maps to every block that has it, and a lookup takes the first that got it
        self.cached: dict[Key, dict[int, None]] = {}
        self.evicted = 0

    @property
    def free(self) -> int:
        """How many blocks can be handed out, keyed ones among them."""
        return len(self.queue)

    @property
    def used(self) -> int:
        """How many blocks requests hold."""
        return self.usable - len(self.queue)

    def take(self, count: int) -> list[int]:
        """Hand out blocks from the front of the queue; a key that one still has is lost now, not when it was freed."""
        taken = [self.queue.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self.refs[block] = 1
            if (key := self.keys[block]) is not None:
                self._forget(block, key)
        return taken

    def hold(self, blocks: Iterable[int]) -> None:
        """Reference blocks that were hit; those that nobody held leave the queue, from wherever they are in it."""
        for block in blocks:
            if block == NULL:
                continue
            if self.refs[block] == 0:
                del self.queue[block]
            self.refs[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Let go of blocks, in order of eviction: the first is handed out first.

        Those without a key go to the front of the queue, in that order; those with one to its back, so that what was
        freed longest ago is evicted first.
        """
        unkeyed = []
        for block in blocks:
            if block == NULL:
                continue
            self.refs[block] -= 1
            if self.refs[block]:
                continue
            self.queue[block] = None
            if self.keys[block] is None:
                unkeyed.append(block)
        for block in reversed(unkeyed):
            self.queue.move_to_end(block, last=False)

    def give_key(self, block: int, key: Key) -> None:
        """Make a full block findable."""
        self.keys[block] = key
        self.cached.setdefault(key, {})[block] = None

    def find(self, key: Key) -> int | None:
        """Return the first block that got this key and still has it."""
        blocks = self.cached.get(key)
        return next(iter(blocks)) if blocks else None

    def _forget(self, block: int, key: Key) -> None:
        self.keys[block] = None
        self.evicted += 1
        blocks = self.cached[key]
        del blocks[block]
        if not blocks:
            del self.cached[key]
