"""What gpu_run.py decodes: forms of batches for the clock, and the poisoned cases of the tests for the numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Shape:
    """A batch: lengths, heads, and how the cache is kept."""

    lengths: tuple[int, ...]
    heads: int = 32
    kv_heads: int = 8
    key: int = 128
    value: int = 128
    cache: str = "bfloat16"
    page: int = 16
    hnd: bool = True
    latent: bool = False

    @property
    def name(self) -> str:
        """What results are listed under."""
        kind = f"MLA {self.heads}" if self.latent else f"GQA {self.heads}/{self.kv_heads} x {self.key}"
        skew = "" if len(set(self.lengths)) == 1 else " skewed"
        order = "HND" if self.hnd else "NHD"
        return f"{kind} {self.cache} B {len(self.lengths)} x {max(self.lengths)}{skew} page {self.page} {order}"


def cases(case: Any, *, dry: bool) -> Iterator[Any]:
    """Yield variants of the tests' Case: every dtype, row, layout and feature that a model has; few in a dry run."""
    lengths = (40, 1, 33) if dry else (4000, 1, 777)
    for cache in (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2):
        base = case(lengths, cache=cache)
        yield replace(base, hnd=True, page=32)
        if dry and cache != torch.bfloat16:
            continue
        yield replace(base, heads=8, kv_heads=1, key=128, value=128, window=100, page=64)
        yield replace(base, heads=16, kv_heads=1, key=576, value=512, latent=True)
        if dry:
            continue
        for key in (80, 96, 192, 256):
            yield replace(base, heads=32, kv_heads=8, key=key, value=key, hnd=key == 96)
        yield replace(base, heads=64, kv_heads=8, key=192, value=128, sinks=True)
        yield replace(base, heads=32, kv_heads=32, key=128, value=128, softcap=30.0, head_scales=True)
        yield replace(base, heads=128, kv_heads=1, key=576, value=512, latent=True, page=64)


def grid(*, dry: bool) -> Iterator[Shape]:
    """Yield the sweep: batch x length x page x dtype, skewed lengths, and MLA."""
    if dry:
        yield Shape((64, 20))
        yield Shape((40,), heads=16, kv_heads=1, key=576, value=512, latent=True)
        return
    draw = torch.Generator().manual_seed(0)
    for cache in ("bfloat16", "float8_e4m3fn"):
        for requests in (1, 8, 32, 128, 256):
            for length in (1024, 4096, 16_384, 65_536):
                for page in (16, 64) if requests in (32, 128) else (16,):
                    yield Shape((length,) * requests, cache=cache, page=page)
        drawn = torch.empty(256).log_normal_(math.log(4096), 1.0, generator=draw).clamp(16, 131_072)
        yield Shape(tuple(int(length) for length in drawn), cache=cache)
        yield Shape((131_072,) + (1024,) * 255, cache=cache)
    for heads in (16, 128):
        yield Shape((8192,) * 64, heads=heads, kv_heads=1, key=576, value=512, latent=True, page=64)
