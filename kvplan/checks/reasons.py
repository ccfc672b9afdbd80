"""Which rule speaks for which of a planner's codes; KVP002 speaks for all that no other does."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.planner import Note

TENSOR_PARALLEL = frozenset({
    "heads_not_divisible", "kv_heads_not_divisible", "state_not_divisible", "vision_heads_not_divisible",
    "quantization_block_not_divisible", "too_many_stages", "attention_dp_not_divisible",
    "context_parallel_unsupported", "slices_not_joined", "experts_not_divisible",
})  # fmt: skip
BEYOND_MODEL = frozenset({"max_model_len_too_long", "context_length_exceeds_model", "max_seq_len_lowered"})
BEYOND_POOL = frozenset({"max_model_len_does_not_fit", "context_exceeds_pool", "max_seq_len_shrunk"})
NO_ROOM = frozenset({
    "no_kv_memory", "weights_exceed_memory", "free_memory_below_request", "states_do_not_fit",
    "window_pool_leaves_nothing", "graphs_may_not_fit",
    "pool_exceeds_card",
})  # fmt: skip
_KV_DTYPE = frozenset({"kv_cache_dtype_unknown", "kv_cache_dtype_unsupported"})
# What the planner assumed on its way, which lowers the confidence of what rests on its figures
ASSUMED = {
    "release_assumed": "release", "engine_modelled": "engine", "gpu_assumed": "gpu", "backend_assumed": "backend",
}  # fmt: skip


def refusals(case: Case, codes: frozenset[str]) -> Iterator[Note]:
    """Yield the reasons of a refusal among the codes."""
    if case.plan is not None:
        yield from (note for note in case.plan.reasons if note.code in codes)


def warnings(case: Case, codes: frozenset[str]) -> Iterator[Note]:
    """Yield the planner's warnings among the codes."""
    if case.plan is not None:
        yield from (note for note in case.plan.warnings if note.code in codes)


def low_precision(case: Case) -> Iterator[Note]:
    """Yield the refusals that a small KV dtype is the cause of."""
    dtype = str(case.deployment.value("kv_cache_dtype", ""))
    if dtype.startswith(("fp8", "nvfp4", "int8", "int4")):
        yield from refusals(case, _KV_DTYPE | {"no_attention_backend"})


def others(case: Case) -> Iterator[Note]:
    """Yield the reasons that no other rule speaks for."""
    claimed = TENSOR_PARALLEL | BEYOND_MODEL | BEYOND_POOL | NO_ROOM
    spoken = {note.code for note in low_precision(case)}
    if case.plan is not None:
        yield from (note for note in case.plan.reasons if note.code not in claimed | spoken)
