"""--mem-fraction-static where nobody gives it: the share of free memory that weights and pools may take.

It is computed before other defaults are final, so it sees the chunk before attention DP divides it and requests before
a model's own limit. Source: SGLang 0.5.23, arg_groups/memory_hook.py; older rules by release.
"""

from __future__ import annotations

from typing import assert_never

from kvplan.engine.sglang.device import Device
from kvplan.engine.sglang.releases import Release
from kvplan.record import dataclass

_FLOOR_ABOVE_MIB, _FLOOR_MIB = 60 * 1024, 10 * 1024
_LATENT_GRAPHS_MIB = 1536  # fa3's overhead for latents
_BUCKET_MIB = 8
_MANY = 300  # decode batches above which attention DP pads much more


@dataclass(frozen=True, slots=True)
class Work:
    """What the reserve grows with: `batch` decode requests captured, `chunk` tokens of a prefill, parallel sizes.

    `prefill_tokens` is the largest captured prefill, 0 where none is captured; `max_prefill` stands in for a chunk that
    is switched off.
    """

    chunk: int
    max_prefill: int
    batch: int
    decode_graphs: bool
    prefill_tokens: int
    latent: bool
    ranks: int
    tensor: int
    attention_dp: int
    speculative: str | None
    deepep: bool


def static_fraction(
    release: Release, device: Device, work: Work, *, vision: tuple[int, int] | None, multimodal: bool
) -> float:
    """Return the fraction, unrounded where a vision tower scales it."""
    found = _by_rule(release, device, work)
    if release.multimodal_factor is not None:
        return found  # these releases scale it later, a given one too
    return found * tower_factor(vision) if multimodal and vision is not None else found


def tower_factor(vision: tuple[int, int]) -> float:
    """Return what a vision tower of so many layers and so wide leaves: 5 % less, and a tenth for each ViT-L more."""
    layers, width = vision
    relative = (layers * width**2) / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (relative - 1.0)))


def _by_rule(release: Release, device: Device, work: Work) -> float:
    memory = device.memory_mib
    match release.fraction:
        case "by_tp" | "by_tp_and_card":
            found = next(share for tp, share in release.fraction_by_tp if work.tensor >= tp)
            if release.fraction == "by_tp" or memory <= 81920:
                return found
            if memory <= 98304:
                return 0.88
            return min(0.88 + 49152 * (1 - 0.88) / memory, (memory - 18432) / memory)
        case "by_card":
            base, each = next((b, e) for below, b, e in release.reserve_by_card if below is None or memory < below)
            held = base + each * work.ranks + 2 * (work.speculative is not None) + 4 * (work.attention_dp > 1)
            return round((memory - held * 1024) / memory, 3)
        case "by_work":
            return round((memory - _reserve_mib(release, memory, work)) / memory, 3)
        case _:
            assert_never(release.fraction)


def _reserve_mib(release: Release, memory: int, work: Work) -> float:
    tokens = work.chunk if work.chunk > 0 else work.max_prefill
    held = 512 + 1.5 * max(tokens, 2048) + work.ranks / 8 * 1024
    if work.decode_graphs:
        held += 2 * work.batch
    if work.attention_dp > 1:
        held += 3 * work.batch * work.attention_dp
        if work.batch > _MANY:
            held += 1.5 * work.batch * work.attention_dp
    if release.prefill_graphs and work.prefill_tokens:
        held += _LATENT_GRAPHS_MIB if work.latent else _BUCKET_MIB * prefill_buckets(work.prefill_tokens)
        held += 1024 * work.deepep
    if memory > _FLOOR_ABOVE_MIB:
        held = max(held, _FLOOR_MIB)
    if not release.prefill_graphs and work.speculative is not None:
        held += (6 if work.speculative == "STANDALONE" else 2) * 1024
    return held + 2048 * (work.deepep and work.decode_graphs)


_STEPS = ((4, 33, 4), (48, 257, 16), (288, 513, 32), (576, 1025, 64), (1280, 4097, 256))


def prefill_buckets(largest: int) -> int:
    """Return how many token counts up to `largest` are captured: 42 up to 2,048, 58 up to 8,192."""
    return sum(size <= largest for step in (*_STEPS, (4608, largest + 1, 512)) for size in range(*step))
