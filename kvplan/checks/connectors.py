"""Which KV connectors keep vLLM's hybrid cache manager, by profiles/engines/vllm.connectors.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from kvplan.assets import PROFILES
from kvplan.manifests.deployment import Deployment
from kvplan.profile import load

_WRAPPER = "MultiConnector"


@cache
def _profile() -> Mapping[str, Any]:
    return load(PROFILES / "engines" / "vllm.connectors.yaml")


def drops_hybrid(found: Deployment) -> str | None:
    """Return the connector of a deployment that switches the hybrid cache off; None where none is known to."""
    section = found.value("kv_transfer_config")
    if found.engine != "vllm" or not isinstance(section, Mapping):
        return None
    if any(name in found.arguments for name in ("disable_hybrid_kv_cache_manager",)):
        return None
    return next((name for name in _connectors(section) if name in _profile()["drops_hybrid"]), None)


def _connectors(section: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield the connector, or those that a MultiConnector puts together."""
    name = section.get("kv_connector")
    if isinstance(name, str):
        yield name
    extra = section.get("kv_connector_extra_config")
    inner = extra.get("connectors") if isinstance(extra, Mapping) and name == _WRAPPER else None
    for each in inner if isinstance(inner, list) and depth < 4 else ():
        if isinstance(each, Mapping):
            yield from _connectors(each, depth + 1)
