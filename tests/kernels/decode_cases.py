"""Inputs of a paged decode that punish every read beyond what a request may see.

Unused slots and pages hold NaN; table entries past a request's end, and those of pages before its window, point at a
page of NaN. (Ids out of range would end the interpreter instead of failing one test.) Pages are shuffled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from kvplan.kernels import paged_launch, reference

BOUND = {torch.float16: 1e-3, torch.bfloat16: 6e-3}  # worst row, by output dtype; about three times what is seen
SCALE = 0.25  # of fp8 caches


@dataclass(frozen=True, slots=True)
class Case:
    """`key` and `value` are head dims; `latent` makes the value the first `value` columns of the key."""

    lengths: tuple[int, ...] = (70, 33)
    heads: int = 4
    kv_heads: int = 2
    key: int = 64
    value: int = 64
    cache: torch.dtype = torch.bfloat16
    page: int = 16
    hnd: bool = False
    latent: bool = False
    window: int | None = None
    chunked: bool = False
    sinks: bool = False
    softcap: float | None = None
    head_scales: bool = False
    seed: int = 0

    def first_seen(self, length):
        if self.window is None:
            return 0
        return max(length - 1, 0) // self.window * self.window if self.chunked else max(length - self.window, 0)


def build(case):
    """Return q, k, v, table, lengths and the options of `decode` for a case."""
    draw = torch.Generator().manual_seed(case.seed)
    needed = [math.ceil(length / case.page) for length in case.lengths]
    pages = sum(needed) + 2
    order = torch.randperm(pages, generator=draw)
    poison, order = int(order[0]), order[1:]
    width = case.key if case.latent else case.key + case.value
    pool = torch.full((pages, case.page, case.kv_heads, width), math.nan)
    table = torch.full((len(needed), max(needed) + 1), poison, dtype=torch.int32)
    at = 0
    for request, length in enumerate(case.lengths):
        ids = order[at : at + needed[request]]
        at += needed[request]
        first = case.first_seen(length)
        table[request, first // case.page : len(ids)] = ids[first // case.page :].int()
        for t in range(first, length):
            pool[ids[t // case.page], t % case.page] = torch.randn(case.kv_heads, width, generator=draw)
    fp8 = case.cache.itemsize == 1
    pool = (pool / SCALE if fp8 else pool).to(case.cache)
    if case.hnd:
        pool = pool.transpose(1, 2).contiguous().transpose(1, 2)
    query = torch.bfloat16 if fp8 else case.cache
    q = torch.randn(len(needed), case.heads, case.key, generator=draw).to(query)
    k, v = pool[..., : case.key], None if case.latent else pool[..., case.key :]
    options = {
        "scale": case.key**-0.5, "k_scale": SCALE if fp8 else 1.0, "v_scale": SCALE if fp8 else 1.0,
        "latent": case.value if case.latent else 0, "window": case.window, "chunked": case.chunked,
        "sinks": torch.randn(case.heads, generator=draw) if case.sinks else None, "softcap": case.softcap,
        "head_scales": torch.rand(2, case.kv_heads, generator=draw) + 0.5 if case.head_scales else None,
    }  # fmt: skip
    return q, k, v, table, torch.tensor(case.lengths, dtype=torch.int32), options


def error(case, **tuning):
    """Decode a case, and return the worst row's error against float64."""
    *tensors, options = build(case)
    out = paged_launch.decode(*tensors, **options, **tuning)
    return reference.worst_row(out, reference.decode(*tensors, **options))


def check(case, **tuning):
    """Assert that the worst row of a case is within the bound of its output dtype."""
    found = error(case, **tuning)
    bound = BOUND[torch.float16 if case.cache == torch.float16 else torch.bfloat16]
    assert found < bound, f"{found:.2e} is not below {bound}: {case}"
