"""Bamba and Granite 4 hybrids: Mamba-2 layers with attention layers between them."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import grouped_query
from kvplan.model.families._state import FULL, LINEAR, block_types, mamba2_block, state
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Shape


@reads("BambaForCausalLM", model_types=("bamba",))
def read(config: Fields) -> Shape:
    """Return the shape of a Bamba checkpoint: the layers in `attn_layer_indices` attend."""
    count = config.layers()
    attending = config.maybe_integers("attn_layer_indices", high=MAX_LAYERS) or []
    if any(index >= count for index in attending):
        raise config.contradicts("attn_layer_indices", "num_hidden_layers", why=f"an index beyond {count} layers")
    return _hybrid(config, [FULL if index in attending else LINEAR for index in range(count)])


@reads("GraniteMoeHybridForCausalLM", model_types=("granitemoehybrid",))
def read_granite(config: Fields) -> Shape:
    """Return the shape of a Granite hybrid; without layer types its class makes every layer a Mamba-2 layer."""
    count = config.layers()
    types = block_types(config, count, LINEAR, FULL, names=("layer_types", "layers_block_type"))
    return _hybrid(config, types or [LINEAR] * count)


def _hybrid(config: Fields, types: list[str]) -> Shape:
    heads = grouped_query(config, own_head_dim=False)
    mamba = state(mamba2_block(config)) if LINEAR in types else ()
    return heads.shape([mamba if name == LINEAR else heads.full() for name in types])
