"""From bytes to what vLLM prints: blocks, tokens, concurrency, the fit check and the longest length that fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from kvplan.engine.vllm.grouping import Group, bytes_per_block
from kvplan.engine.vllm.pages import Page, Scheduling, blocks_per_request
from kvplan.record import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """What one pipeline stage keeps: its pages, and the bytes that one block id costs there."""

    bytes_per_block: int
    pages: tuple[Page, ...] = ()


@dataclass(frozen=True, slots=True)
class Counting:
    """How a release counts (profiles/engines/vllm.yaml says since when); the defaults are those of 0.33."""

    concurrency: Literal["tokens", "blocks"] = "blocks"
    tokens_printed: Literal["blocks", "concurrency"] = "concurrency"
    needed: Literal["layers", "first_group", "groups"] = "groups"
    null_block_held: bool = True


@dataclass(frozen=True, slots=True)
class Pool:
    """The groups of a model, cut into pipeline stages, the scheduler's settings and the release's way to count."""

    groups: tuple[Group, ...]
    stages: tuple[Stage, ...]
    scheduling: Scheduling
    counting: Counting = Counting()

    @property
    def bytes_per_block(self) -> int:
        """What one block id costs on the stage where it costs most."""
        return max(stage.bytes_per_block for stage in self.stages)

    @property
    def block_size(self) -> int:
        """Tokens a block, the least over the groups."""
        return min(group.block_size for group in self.groups)

    def blocks_per_request(self, length: int) -> int:
        """Return the blocks that one request of `length` tokens claims over all groups."""
        return sum(group.blocks(length, self.scheduling) for group in self.groups)

    def num_blocks(self, available: int) -> int:
        """Return the block ids that `available` bytes a rank hold: the least over the stages."""
        return min(max(available, 0) // stage.bytes_per_block for stage in self.stages)

    def needed(self, length: int) -> int:
        """Return the bytes that one request of `length` tokens needs on the fullest stage, as the fit check counts."""
        match self.counting.needed:
            case "groups":
                return self.bytes_per_block * self.blocks_per_request(length)
            case "first_group":  # and the whole model's layers, whatever a stage holds
                return bytes_per_block(self.groups) * self.groups[0].blocks(length, self.scheduling)
            case "layers":
                claims = {page: blocks_per_request(page, length, self.scheduling) for page in self._pages}
                return max(sum(page.bytes * claims[page] for page in stage.pages) for stage in self.stages)

    @property
    def _pages(self) -> set[Page]:
        return {page for stage in self.stages for page in stage.pages}

    def usable(self, available: int) -> int:
        """Return what the fit check compares with: where the release does so, a block (the null block) is held back."""
        return available - self.bytes_per_block if self.counting.null_block_held else available

    def fits(self, length: int, available: int) -> bool:
        """Say whether the engine would start with this length."""
        return self.usable(available) > 0 and self.needed(length) <= self.usable(available)

    def longest(self, limit: int, available: int) -> int:
        """Return the longest length up to `limit` that fits, 0 where none does."""
        return largest(lambda length: self.fits(length, available), limit)

    def concurrency(self, num_blocks: int, length: int) -> float:
        """Return the maximum concurrency that the engine prints: a plain ratio of blocks, or of tokens."""
        if self.counting.concurrency == "tokens":
            return num_blocks * self.block_size / length
        return num_blocks / self.blocks_per_request(length)

    def tokens(self, num_blocks: int, length: int) -> int:
        """Return the token figure that the engine prints.

        Concurrency times length, as a float, cut to an integer; or the tokens of one group's share of the blocks.
        """
        if self.counting.tokens_printed == "concurrency":
            return int(self.concurrency(num_blocks, length) * length)
        return num_blocks // len(self.groups) * self.block_size * self.scheduling.dcp


def largest(holds: Callable[[int], bool], limit: int) -> int:
    """Return the largest n in [1, limit] for which `holds`, by bisection; 0 where it fails at 1."""
    if limit < 1 or not holds(1):
        return 0
    low, high = 1, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def cut(groups: Sequence[Group], owners: Sequence[int], stages: Sequence[range]) -> tuple[Stage, ...]:
    """Cut the groups into pipeline stages.

    `owners` is the model layer of each page, `stages` the model layers of each stage. A stage without cached layers
    takes no part: it holds any number of blocks.
    """
    if not groups:
        return ()
    if len(stages) == 1:
        return (Stage(bytes_per_block(groups), tuple(page for group in groups for page in group.pages)),)
    found = []
    for layers in stages:
        here = [
            [page for layer, page in zip(group.layers, group.pages, strict=True) if owners[layer] in layers]
            for group in groups
        ]
        size = max(sum(page.bytes for page in pages) for pages in here)
        if size:
            found.append(Stage(size, tuple(page for pages in here for page in pages)))
    return tuple(found)


def partition(layers: int, stages: int) -> list[range]:
    """Return the layer positions of each pipeline stage, as the engine splits them.

    Equal parts; a remainder goes one each to the stages counted from the second-last backwards, never to the last and
    to the first only if all others have one.
    """
    base, rest = divmod(layers, stages)
    sizes = [base] * stages
    for i in range(2, rest + 2):
        sizes[-i] += 1
    starts = [sum(sizes[:i]) for i in range(stages)]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]
