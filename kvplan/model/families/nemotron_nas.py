"""Llama-Nemotron and DeciLM (found by architecture search): KV heads by layer, and layers without attention."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import divided_hidden, geometry, listed
from kvplan.model.fields import Fields
from kvplan.model.spec import Layer, Shape


@reads("DeciLMForCausalLM", model_types=("nemotron-nas", "deci"))
def read(config: Fields) -> Shape:
    """Return the shape of such a model, from `block_configs` or, in the first releases, from a list of KV heads."""
    count = config.layers()
    heads = config.integer("num_attention_heads")
    head_dim = config.maybe_integer("head_dim") or divided_hidden(config, heads)
    if config.has("block_configs"):
        kv_heads = _from_blocks(config, count, heads)
    elif config.has("num_key_value_heads_per_layer"):
        kv_heads = listed(config, "num_key_value_heads_per_layer", count, low=1)
    else:
        raise config.lacks("block_configs", "num_key_value_heads_per_layer")
    found = [kv for kv in kv_heads if kv]
    if not found:
        raise config.contradicts("block_configs", "num_hidden_layers", why="no layer has attention")
    layers: list[Layer] = [geometry(config, heads, kv, head_dim).full() if kv else () for kv in kv_heads]
    return geometry(config, heads, found[0], head_dim).shape(layers)


def _from_blocks(config: Fields, count: int, heads: int) -> list[int]:
    """Return the KV heads of each layer, 0 where it has no attention (skipped, or replaced by a linear layer)."""
    blocks = config.raw("block_configs")
    if not isinstance(blocks, list) or len(blocks) != count:
        found = len(blocks) if isinstance(blocks, list) else 0
        raise config.contradicts("block_configs", "num_hidden_layers", why=f"{found} blocks for {count} layers")
    result = []
    for i, block in enumerate(blocks):
        attention = block.get("attention") if isinstance(block, dict) else None
        if not isinstance(attention, dict):
            raise config.bad(f"block_configs[{i}].attention", "an object", attention)
        section = Fields(attention, where=config.path(f"block_configs[{i}].attention"), root=config.root)
        if section.flag("no_op") or section.flag("replace_with_linear"):
            result.append(0)
            continue
        group = section.integer("n_heads_in_group")
        if heads % group:
            raise section.contradicts("n_heads_in_group", why=f"{heads} query heads in groups of {group}")
        result.append(heads // group)
    return result
