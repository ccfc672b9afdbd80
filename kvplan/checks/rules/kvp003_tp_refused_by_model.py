"""KVP003: the model cannot be split over that many GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.reasons import TENSOR_PARALLEL, refusals
from kvplan.checks.registry import Hit, check

_STAGES = "too_many_stages"
_CONTEXT = "context_parallel_unsupported"
_EXPERTS = "experts_not_divisible"


@check("KVP003", "tp-refused-by-model", Severity.ERROR)
def rule(case: Case) -> Iterator[Hit]:
    """The model cannot be split over that many GPUs.

    Attention heads, KV heads, recurrent states, vision towers and blocks of quantised weights must divide over the
    ranks, and the width of experts over tensor times data parallel ranks, unless expert parallelism keeps experts
    whole; layers must fill the pipeline stages. Where they do not, the engine stops while it builds the model.

    Bad: `--tensor-parallel-size 3` for a model of 32 attention heads.
    Good: `--tensor-parallel-size 4`.
    Fix: a size that divides, which the message lists.
    """
    found = case.deployment
    for note in refusals(case, TENSOR_PARALLEL):
        names = {
            _STAGES: ("pipeline_parallel_size",),
            _CONTEXT: ("decode_context_parallel_size",),
            _EXPERTS: ("data_parallel_size", "tensor_parallel_size"),
        }.get(note.code, ("tensor_parallel_size",))
        yield Hit(found.place_of(*names), note.message, note.hint)
