"""KVP005: one request of the full context length does not fit."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.reasons import BEYOND_POOL, refusals, warnings
from kvplan.checks.registry import Hit, check

_NAMES = ("max_model_len", "context_length", "max_seq_len")


@check("KVP005", "context-beyond-pool", Severity.ERROR, figures=True)
def rule(case: Case) -> Iterator[Hit]:
    """One request of the full context length does not fit the KV cache.

    vLLM refuses to start where its pool cannot hold a single request of `--max-model-len`. SGLang starts and turns such
    requests away, TensorRT-LLM lowers the length by itself: there it is a warning.

    Bad: `--max-model-len 131072` for a 70B model on cards whose pool holds 40,000 tokens.
    Good: `--max-model-len 32768`.
    Fix: the longest length that fits.
    """
    place = case.deployment.place_of(*_NAMES)
    for note in refusals(case, BEYOND_POOL):
        longest = case.plan.kv.longest_model_len if case.plan is not None else None
        fix = f"--max-model-len {longest}" if longest and case.deployment.engine == "vllm" else note.hint
        yield Hit(place, note.message, fix)
    for note in warnings(case, BEYOND_POOL):
        yield Hit(place, note.message, note.hint, severity=Severity.WARNING)
