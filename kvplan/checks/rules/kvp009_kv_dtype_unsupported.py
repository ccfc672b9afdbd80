"""KVP009: the card or the release has no such KV-cache dtype."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.reasons import low_precision
from kvplan.checks.registry import Hit, check


@check("KVP009", "kv-dtype-unsupported", Severity.ERROR)
def rule(case: Case) -> Iterator[Hit]:
    """The card or the release has no such KV-cache dtype.

    fp8 and smaller caches need a release that knows the dtype and an attention backend that reads it on this card.

    Bad: `--kv-cache-dtype fp8_e5m2` beside weights in fp8.
    Good: `--kv-cache-dtype fp8`.
    Fix: another dtype, or `auto`.
    """
    for note in low_precision(case):
        yield Hit(case.deployment.place_of("kv_cache_dtype"), note.message, note.hint or "--kv-cache-dtype auto")
