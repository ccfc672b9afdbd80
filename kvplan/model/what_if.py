"""The same model with other KV heads: what multi-head, grouped-query or multi-query attention would have cost."""

from __future__ import annotations

from dataclasses import replace

from kvplan.errors import UsageError
from kvplan.model.spec import Cache, Chunked, Cross, Full, ModelSpec, Window


def with_kv_heads(model: ModelSpec, kv_heads: int) -> ModelSpec:
    """Return the model with `kv_heads` KV heads in every attention layer; raises UsageError where that is no model."""
    shape = model.shape
    if not any(isinstance(cache, Full | Window | Chunked | Cross) for cache in shape.caches()):
        raise UsageError("--kv-heads: this model has no attention layers with KV heads")
    if not 1 <= kv_heads <= shape.heads or shape.heads % kv_heads:
        raise UsageError(f"--kv-heads {kv_heads}: KV heads must divide the {shape.heads} query heads")

    def changed(cache: Cache) -> Cache:
        return replace(cache, kv_heads=kv_heads) if isinstance(cache, Full | Window | Chunked | Cross) else cache

    layers = tuple(tuple(changed(cache) for cache in layer) for layer in shape.layers)
    return replace(model, shape=replace(shape, layers=layers, kv_heads=kv_heads))
