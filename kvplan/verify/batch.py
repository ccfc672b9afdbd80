"""Which requests a decode step has, and which shuffled block ids each of them holds."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kvplan.engine.vllm.pages import Kind
from kvplan.verify.device import Batch
from kvplan.verify.pool import Pool

NULL = 0  # the block that engines keep back; entries that nothing may read point at it


class Shortfall(Exception):
    """The requests need more blocks than there are; the message says how many."""

    def __init__(self, requests: int, length: int, needed: int, blocks: int) -> None:
        super().__init__(
            f"{requests:,} requests of {length:,} tokens need {needed:,} blocks, and the plan has {blocks:,}"
        )


def crowd(pool: Pool, blocks: int, requests: int, length: int, seed: int) -> Batch:
    """Return `requests` of `length` tokens each; the last is shorter where the null block is what it lacks.

    Raises Shortfall where they need more blocks than the pool has, the null block included.
    """
    one = _needed(pool, length)
    if requests * one > blocks:
        raise Shortfall(requests, length, requests * one, blocks)
    lengths = [length] * requests
    unit = max(group.page.block_size for group in pool.groups if group.page.kind is not Kind.STATE)
    while (requests - 1) * one + _needed(pool, lengths[-1]) > blocks - 1:
        lengths[-1] -= unit
        if lengths[-1] < 1:
            raise Shortfall(requests, length, requests * one, blocks - 1)
    return deal(pool, blocks, lengths, seed)


def deal(pool: Pool, blocks: int, lengths: Sequence[int], seed: int) -> Batch:
    """Deal shuffled block ids to requests of these lengths, groups from one pool of ids."""
    ids = list(range(1, blocks))
    random.Random(seed).shuffle(ids)  # noqa: S311  # any order will do, so long as it is the same again
    tables: list[tuple[tuple[int, ...], ...]] = []
    tokens: list[tuple[int, ...]] = []
    for group in pool.groups:
        rows = []
        for length in lengths:
            first, count = group.claims(length, pool.scheduling)
            rows.append((NULL,) * first + tuple(ids.pop() for _ in range(count)))
        tables.append(tuple(rows))
        tokens.append(tuple(group.tokens(length, pool.scheduling) for length in lengths))
    return Batch(tuple(tokens), tuple(tables))


def _needed(pool: Pool, length: int) -> int:
    return sum(group.claims(length, pool.scheduling)[1] for group in pool.groups)
