"""KVP004: the context length is above what the model was made for."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.reasons import BEYOND_MODEL, refusals, warnings
from kvplan.checks.registry import Hit, check


@check("KVP004", "context-beyond-model", Severity.ERROR)
def rule(case: Case) -> Iterator[Hit]:
    """The context length is above what the model was made for.

    The config's own limit, stretched by its rope scaling, bounds `--max-model-len`; the engine refuses more unless an
    environment variable overrides it, at the price of wrong output. TensorRT-LLM lowers the length by itself: there it
    is a warning.

    Bad: `--max-model-len 300000` for a model of 131,072 positions.
    Good: `--max-model-len 131072`.
    Fix: the longest length that is accepted.
    """
    place = case.deployment.place_of("max_model_len", "context_length", "max_seq_len")
    for note in refusals(case, BEYOND_MODEL):
        yield Hit(place, note.message, note.hint.partition(";")[0])
    for note in warnings(case, BEYOND_MODEL):
        yield Hit(place, note.message, note.hint, severity=Severity.WARNING)
