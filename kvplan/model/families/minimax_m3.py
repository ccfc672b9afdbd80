"""MiniMax-M3: grouped-query attention, in most layers sparse by an index over blocks of keys."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import grouped_query, listed
from kvplan.model.families._latent import draft_count
from kvplan.model.families._multimodal import wraps
from kvplan.model.fields import Fields
from kvplan.model.spec import Indexer, Layer, Shape

_SPARSE = "MiniMaxM3SparseForCausalLM"
reads("MiniMaxM3SparseForConditionalGeneration", model_types=("minimax_m3_vl",))(wraps(_SPARSE))


@reads(_SPARSE, "MiniMaxM3ForCausalLM", model_types=("minimax_m3", "minimax_m3_text", "minimax_m3_vl_text"))
def read(config: Fields) -> Shape:
    """Return the shape of an M3: each layer whose `sparse_attention_freq` is not 0 also keeps an index key a token.

    Its prediction layers are all sparse. An explicit null for the section makes every layer a plain one.
    """
    heads = grouped_query(config)
    count = config.layers()
    section = config.maybe_section("sparse_attention_config")
    drafts = draft_count(config, "num_mtp_modules", default=1)  # as vLLM's config class has it
    if section is None:
        if "sparse_attention_config" not in config.names():
            raise config.lacks("sparse_attention_config")
        return heads.shape([heads.full()] * count, draft_layers=(heads.full(),) * drafts)
    sparse: Layer = (*heads.full(), Indexer(section.integer("sparse_index_dim"), quantised=False))
    layers = [sparse if freq else heads.full() for freq in listed(section, "sparse_attention_freq", count)]
    return heads.shape(layers, draft_layers=(sparse,) * drafts)
