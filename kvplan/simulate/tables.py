"""What a KV group keeps of a request: how many blocks it needs, which it drops, which it can hit, which get a key.

A group of full attention (`window` None) keeps every block until the end. A sliding window w drops what no later token
can see: at C computed tokens, the first C - w + 1. All groups have one block size and draw from the one pool.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.simulate.blocks import NULL, Pool
from kvplan.simulate.settings import Settings


def blocks_for(tokens: int, block_size: int) -> int:
    """Return how many blocks hold that many tokens."""
    return -(-tokens // block_size)


def dropped(window: int | None, computed: int, block_size: int) -> int:
    """Return how many blocks from the start on are out of sight."""
    return 0 if window is None else max(0, computed - window + 1) // block_size


def run_for_hit(window: int, block_size: int) -> int:
    """Return how many cached blocks in a row let a request go on behind them."""
    return blocks_for(window - 1, block_size)


def admission_cap(window: int | None, settings: Settings) -> int | None:
    """Return the most blocks that a group reserves for one request: a window and what is in flight; None without one.

    Under asynchronous scheduling two batches are in flight. The last block is for a window that starts inside one.
    """
    if window is None:
        return None
    in_flight = settings.max_num_batched_tokens * (2 if settings.async_scheduling else 1)
    return blocks_for(min(window - 1 + in_flight, settings.max_model_len), settings.block_size) + 1


def keyed_positions(
    window: int | None, start: int, end: int, settings: Settings, boundaries: Sequence[int]
) -> Sequence[int]:
    """Return which of the blocks `start` to `end`, just filled, get a key.

    Full attention keys all. A sliding window keys only what a later request can hit: the run that ends at each of the
    boundaries (tokens), and with a retention interval the run that ends at each interval; all with retention None.
    """
    retention, size = settings.retention, settings.block_size
    if window is None:
        return range(start, end)
    run = run_for_hit(window, size)
    every = 1 if retention is None else retention // size
    if every and run >= every:
        return range(start, end)
    found = {i for i in range(start, end) if i % every >= every - run} if every else set()
    if retention is not None:
        for boundary in boundaries:
            last = boundary // size
            found.update(range(max(start, last - run), min(end, last)))
    return sorted(found)


def longest_hit(
    pool: Pool, groups: tuple[int | None, ...], chain: Sequence[int], limit: int, block_size: int
) -> tuple[list[list[int]], int, int]:
    """Return the hit blocks of each group, their common length in blocks, and the junction in blocks.

    `limit` is the most blocks that may be hit. Groups with the same window are searched as one: a position counts where
    all of them have it. Full attention comes first; whatever shortens the hit is searched again, until nothing does.
    The junction is what one kind of group could have hit further: a prefix that others share, which sliding-window
    groups should key when they compute it; 0 where the hit is the longest there is.
    """
    kinds = sorted(dict.fromkeys(groups), key=lambda window: window is not None)
    hits: dict[int | None, list[list[int]]] = {}
    length, longest = limit, 0
    while True:
        found = length
        for window in kinds:
            members = [i for i, other in enumerate(groups) if other == window]
            if window is not None:
                hits[window] = _window_hit(pool, members, chain, found, run_for_hit(window, block_size))
            elif window not in hits:
                hits[window] = _prefix_hit(pool, members, chain, found)
            found = min(found, len(hits[window][0]))
            longest = max(longest, found)
        if found >= length:
            break
        length = found
        if len(kinds) == 2 and kinds[0] is None:  # the engine's short cut: one pass is enough for full and a window
            break
    tables: list[list[int]] = [[] for _ in groups]
    for window in kinds:
        members = [i for i, other in enumerate(groups) if other == window]
        for i, blocks in zip(members, hits[window], strict=True):
            tables[i] = blocks[:length]
    return tables, length, longest if longest > length else 0


def _lookup(pool: Pool, members: Sequence[int], number: int) -> list[int] | None:
    """Return the block of each group, or None where one of them has none."""
    found = []
    for group in members:
        block = pool.find((group, number))
        if block is None:
            return None
        found.append(block)
    return found


def _prefix_hit(pool: Pool, members: Sequence[int], chain: Sequence[int], limit: int) -> list[list[int]]:
    """Walk from the first block while every group has it."""
    tables: list[list[int]] = [[] for _ in members]
    for number in chain[:limit]:
        found = _lookup(pool, members, number)
        if found is None:
            break
        for table, block in zip(tables, found, strict=True):
            table.append(block)
    return tables


def _window_hit(pool: Pool, members: Sequence[int], chain: Sequence[int], limit: int, run: int) -> list[list[int]]:
    """Search from the right for `run` cached blocks in a row; the hit ends where they do, what is before them is null.

    If the search ends at block 0, the blocks in a row from there on count even if they are fewer.
    """
    tables = [[NULL] * limit for _ in members]
    in_a_row = 0
    for position in range(limit - 1, -1, -1):
        found = _lookup(pool, members, chain[position])
        if found is None:
            in_a_row = 0
            continue
        for table, block in zip(tables, found, strict=True):
            table[position] = block
        in_a_row += 1
        if in_a_row >= run:
            return [table[: position + in_a_row] for table in tables]
    return [table[:in_a_row] for table in tables]
