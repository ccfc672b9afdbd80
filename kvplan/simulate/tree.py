"""Texts as paths in a tree, and blocks as stretches of its nodes: what the event engine keeps instead of blocks."""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping
from typing import TypeAlias

from kvplan.simulate.request import Span

Children: TypeAlias = MutableMapping[Hashable, "Node"]
# (what the blocks hold and where it hangs below the step before, how many full blocks that is)
PlanStep: TypeAlias = tuple[Hashable, int]


class Node:
    """A run of blocks with one chain of contents. Its first `present` keys are cached.

    `holds` counts the requests that reference blocks (low, high) of its own, `queued` are the stretches of its own that
    nobody references, deepest first; `copies` are further blocks with its keys, in the order in which they got them.
    """

    __slots__ = ("children", "copies", "holds", "home", "key", "present", "queued")

    def __init__(self, home: Children | None = None, key: Hashable = None) -> None:
        self.present = 0
        self.holds: dict[tuple[int, int], int] = {}
        self.queued: list[Stretch] = []
        self.copies: list[Stretch] = []
        self.children: Children = {}
        self.home = home
        self.key = key


class Stretch:
    """Blocks `low` to `high` of a node: what a request holds, in its path, or what lies in the queue.

    A copy is one block; `path` is where it is held, None while it lies in the queue.
    """

    __slots__ = ("copy", "high", "low", "node", "path")

    def __init__(self, node: Node, low: int, high: int, *, copy: bool = False, path: Path | None = None) -> None:
        self.node = node
        self.low = low
        self.high = high
        self.copy = copy
        self.path = path


Path: TypeAlias = list[Stretch]


class Place:
    """How far a request has come along its steps: its path, and the blocks keyed of the step it is in."""

    __slots__ = ("at", "depth", "path", "steps")

    def __init__(self, steps: list[PlanStep]) -> None:
        self.steps = steps
        self.path: Path = []
        self.at = self.depth = 0


def plan_steps(spans: tuple[Span, ...], block_size: int, salt: str) -> list[PlanStep]:
    """Return the full blocks of a text as steps down the tree: runs inside one source, single blocks across several.

    A step hangs below its parent at a depth, as another text may follow the parent's source further. The first hangs
    below its salt.
    """
    steps: list[PlanStep] = []
    pieces: list[Hashable] = []
    depth, room = 0, block_size
    for source, tokens in spans:
        offset = 0
        if pieces:
            offset = min(room, tokens)
            pieces.append((source, 0, offset))
            room -= offset
            if room:
                continue
            steps.append(((depth, *pieces), 1))
            depth, pieces = 1, []
        run, rest = divmod(tokens - offset, block_size)
        if run:
            steps.append(((depth, source, offset), run))
            depth = run
        room = block_size - rest
        if rest:
            pieces.append((source, tokens - rest, rest))
    if salt and steps:
        steps[0] = ((salt, steps[0][0]), steps[0][1])
    return steps
