"""KVP002: the engine refuses to start."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.reasons import others
from kvplan.checks.registry import Hit, check

# Where a reason of this code is written in the manifest
_ARGUMENTS = {
    "quantization_unsupported": ("quantization",),
    "kv_cache_dtype_unknown": ("kv_cache_dtype",),
    "kv_cache_dtype_unsupported": ("kv_cache_dtype",),
    "block_size_unsupported": ("block_size", "page_size"),
    "pipeline_unsupported": ("pipeline_parallel_size",),
    "no_draft_layers": ("speculative_config", "speculative_algorithm"),
}


@check("KVP002", "does-not-start", Severity.ERROR)
def rule(case: Case) -> Iterator[Hit]:
    """The engine refuses to start.

    One finding for each reason that the engine itself would print and exit with: an architecture that the release does
    not serve, a quantization method or a block size that it does not have, caches that it cannot group, and for a value
    that its flag does not take, such as a share of the memory above 1. The refusals that have a rule of their own
    (KVP003 to KVP006, KVP009) are not repeated here.

    Bad: a model whose architecture the stated release dropped.
    Good: the same model with a release that serves it.
    Fix: the hint that stands beside the reason.
    """
    found = case.deployment
    if case.refused is not None:
        argument = found.arguments.get(case.refused.flag[2:].replace("-", "_"))
        yield Hit(
            argument.place if argument is not None else found.place,
            case.refused.message,
            case.refused.hint or f"another {case.refused.flag}, or none",
        )
    for note in others(case):
        written = next((name for name in _ARGUMENTS.get(note.code, ()) if name in found.arguments), None)
        place = found.arguments[written].place if written is not None else found.place
        if note.code.startswith("architecture") and found.model_place is not None:
            place = found.model_place
        otherwise = f"another {found.arguments[written].flag}, or none" if written is not None else ""
        yield Hit(place, note.message, note.hint or otherwise)
