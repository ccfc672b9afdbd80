"""KVP006: the memory that the engine may use leaves no room."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.reasons import NO_ROOM, refusals, warnings
from kvplan.checks.registry import Hit, check
from kvplan.planner import OVERFLOWS

_NAMES = (
    "gpu_memory_utilization",
    "mem_fraction_static",
    "kv_cache_memory_bytes",
    "num_gpu_blocks_override",
    "tensor_parallel_size",
)


@check("KVP006", "no-room-for-kv", Severity.ERROR, figures=True)
def rule(case: Case) -> Iterator[Hit]:
    """The memory that the engine may use leaves no room.

    Either the weights and the working memory fill the share of the card that the engine may use, so that nothing is
    left for the KV cache; or the share itself is larger than what is free when the engine starts; or a pool that the
    flags give finds no room beside the weights. Each stops it.

    Bad: a 70B model in 16 bit on one card of 80 GB; `--gpu-memory-utilization 1.0`.
    Good: the same model over four cards; `--gpu-memory-utilization 0.92`.
    Fix: another share, more GPUs, or smaller weights.
    """
    place = case.deployment.place_of(*_NAMES)
    for note in refusals(case, NO_ROOM):
        yield Hit(place, note.message, note.hint)
    for note in warnings(case, NO_ROOM):
        if note.code == OVERFLOWS:
            yield Hit(place, note.message, note.hint)
        else:
            yield Hit(place, note.message, note.hint, sure="medium", severity=Severity.WARNING)
