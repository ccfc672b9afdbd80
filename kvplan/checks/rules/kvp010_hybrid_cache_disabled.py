"""KVP010: a KV connector switches the hybrid cache off."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.connectors import drops_hybrid
from kvplan.checks.finding import Severity
from kvplan.checks.registry import Hit, check
from kvplan.model.spec import Chunked, State, Window


@check("KVP010", "hybrid-cache-disabled", Severity.WARNING)
def rule(case: Case) -> Iterator[Hit]:
    """A KV connector switches the hybrid cache off.

    vLLM caches sliding-window layers over their window only, and recurrent layers as states, by its hybrid KV cache
    manager. A connector that does not support it switches it off: window layers are cached at full length, and models
    with recurrent layers do not start.

    Bad: Gemma 3 with `--kv-transfer-config '{"kv_connector": "LMCacheConnectorV1", …}'`.
    Good: the same with NixlConnector.
    Fix: a connector that keeps it.
    """
    found, spec = case.deployment, case.spec
    connector = drops_hybrid(found)
    if connector is None or spec is None:
        return
    caches = list(spec.shape.caches())
    place = found.place_of("kv_transfer_config")
    if any(isinstance(cache, State) for cache in caches):
        message = f"{connector} switches the hybrid KV cache off, without which a model with recurrent layers stops"
        yield Hit(place, message, "a connector that keeps it, such as NixlConnector", severity=Severity.ERROR)
        return
    windows = sum(isinstance(cache, Window | Chunked) for cache in caches)
    if windows:
        yield Hit(
            place,
            f"{connector} switches the hybrid KV cache off: {windows} window layers are cached at full length",
            "a connector that keeps it, such as NixlConnector",
        )
