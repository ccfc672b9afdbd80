"""Laguna: layers by type, with query heads of their own number in each; the KV heads are the same throughout."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    FULL,
    SLIDING,
    by_types,
    grouped_query,
    listed,
    sliding_types,
    sliding_window,
)
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


@reads("LagunaForCausalLM", model_types=("laguna",))
def read(config: Fields) -> Shape:
    """Return the shape of a Laguna; without layer_types every layer is full, whatever sliding_window says."""
    heads = grouped_query(config)
    count = config.layers()
    types = sliding_types(config, count) or [FULL] * count
    if config.has("num_attention_heads_per_layer"):
        for own in listed(config, "num_attention_heads_per_layer", count, low=1):
            if own % heads.kv_heads:
                raise config.contradicts(
                    "num_attention_heads_per_layer", "num_key_value_heads", why=f"{own} by {heads.kv_heads}"
                )
    sinks = SLIDING in types and config.flag("swa_attention_sink_enabled")
    return heads.shape(by_types(heads, types, sliding_window(config)), sinks=sinks)
