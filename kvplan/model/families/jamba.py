"""Jamba: Mamba layers with an attention layer every few."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import grouped_query
from kvplan.model.families._state import expanded_width, kernel_of, state
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Mamba1, Shape


@reads("JambaForCausalLM", "JambaForSequenceClassification", model_types=("jamba",))
def read(config: Fields) -> Shape:
    """Return the shape of a Jamba checkpoint: layer `attn_layer_offset` of each `attn_layer_period` attends."""
    heads = grouped_query(config, own_head_dim=False)
    inner = expanded_width(config, "mamba_expand")
    mamba = state(Mamba1(inner, config.integer("mamba_d_state"), kernel_of(config, "mamba_d_conv")))
    period = config.integer("attn_layer_period", high=MAX_LAYERS)
    offset = config.integer("attn_layer_offset", low=0, high=MAX_LAYERS)
    if offset >= period:
        raise config.contradicts("attn_layer_offset", "attn_layer_period", why=f"{offset} is not below {period}")
    return heads.shape([heads.full() if i % period == offset else mamba for i in range(config.layers())])
