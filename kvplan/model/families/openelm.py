"""OpenELM: query heads and KV heads by layer."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import geometry
from kvplan.model.fields import Fields
from kvplan.model.spec import Layer, Shape


@reads("OpenELMForCausalLM", model_types=("openelm",))
def read(config: Fields) -> Shape:
    """Return the shape of an OpenELM; the model-wide figures are the widest layer's."""
    count = config.layers("num_transformer_layers")
    head_dim = config.integer("head_dim")
    queries = _by_layer(config, "num_query_heads", count)
    keys = _by_layer(config, "num_kv_heads", count)
    layers: list[Layer] = [
        geometry(config, heads, kv_heads, head_dim, name="num_kv_heads").full()
        for heads, kv_heads in zip(queries, keys, strict=True)
    ]
    return Shape(tuple(layers), max(queries), max(keys), head_dim)


def _by_layer(config: Fields, name: str, count: int) -> list[int]:
    values = config.maybe_integers(name, low=1)
    if values is None:
        raise config.lacks(name)
    if len(values) != count:
        raise config.contradicts(name, "num_transformer_layers", why=f"{len(values)} entries for {count} layers")
    return values
