"""Hunyuan V4: latent attention, sparse where the layer type says so; some layers share an earlier one's index."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import layer_types
from kvplan.model.families._latent import draft_count, indexer_types, latent_attention
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape

_SPARSE = frozenset({"sparse_attention", "sparse", "indexed_attention", "deepseek_sparse_attention"})
_PERIOD = 4  # without indexer_types the class computes an index in layer 0, then in every 4th from layer 1 on


@reads("HYV4ForCausalLM", model_types=("hy_v4",))
def read(config: Fields) -> Shape:
    """Return the shape of a Hunyuan V4 checkpoint; without layer_types no layer is sparse, as in vLLM."""
    attention = latent_attention(config)
    count = config.layers()
    types = layer_types(config, count, "full_attention", *sorted(_SPARSE)) or ["full_attention"] * count
    index = indexer_types(config, count)
    if index is None:
        index = ["full" if i == 0 or (i - 1) % _PERIOD == 0 else "shared" for i in range(count)]
    topk = config.maybe_integer("index_topk")
    if topk is None or not _SPARSE.intersection(types):
        return attention.shape([attention.layer()] * count, draft_layers=(attention.layer(),) * _drafts(config))
    indexed = attention.indexed(config.integer("index_head_dim"))
    dense, shared = attention.layer(dense=True), attention.layer()
    layers = [
        dense if name not in _SPARSE else indexed if kind == "full" else shared
        for name, kind in zip(types, index, strict=True)
    ]
    # A prediction layer is of the last layer's type, with an index of its own.
    draft = indexed if types[-1] in _SPARSE else dense
    return attention.shape(layers, draft_layers=(draft,) * _drafts(config), index_topk=topk)


def _drafts(config: Fields) -> int:
    return draft_count(config, "num_nextn_predict_layers")
