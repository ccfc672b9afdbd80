"""Multi-head latent attention: what DeepSeek-V2 and all that is built on it have in common.

The down-projections to the latents, their norms and the indexer are whole on every rank; the up-projections are split
by heads.
"""

from __future__ import annotations

from kvplan.model.weights.blocks import kv_scales
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.sparse import CORRECTION, mixture, shared_width, sparse_layers
from kvplan.model.weights.tensors import MODEL, Part, Role
from kvplan.model.weights.text import Text


def latent_attention(at: Scope, text: Text, *, scales: str = "mla_attn") -> list[Part]:
    """Return the projections of one MLA layer; without q_lora_rank the query is projected in one step."""
    config, hidden, heads = text.config, text.hidden, text.shape.heads
    nope, rotary = config.integer("qk_nope_head_dim", low=0), config.integer("qk_rope_head_dim", low=0)
    rank, values = config.integer("kv_lora_rank"), config.integer("v_head_dim")
    query_rank = config.maybe_integer("q_lora_rank", low=0)
    whole = Role.REPLICATED
    bias = text.flag("attention_bias")
    query: list[Part] = [at.linear("self_attn.q_proj", heads * (nope + rotary), hidden)]
    if query_rank:
        query = [
            at.linear("self_attn.q_a_proj", query_rank, hidden, whole, bias=bias),
            *at.norm("self_attn.q_a_layernorm", query_rank),
            at.linear("self_attn.q_b_proj", heads * (nope + rotary), query_rank),
        ]
    return [
        *query,
        at.linear("self_attn.kv_a_proj_with_mqa", rank + rotary, hidden, whole, bias=bias, leads=not query_rank),
        *at.norm("self_attn.kv_a_layernorm", rank),
        at.linear("self_attn.kv_b_proj", heads * (nope + values), rank),
        at.linear("self_attn.o_proj", hidden, heads * values, Role.ROW, bias=bias),
        kv_scales(at, scales),
    ]


def indexer(at: Scope, text: Text, hidden: int) -> list[Part]:
    """Return a sparse-attention indexer; its key and weight projections are merged and kept in the model's dtype."""
    config = text.config
    heads, dim = config.integer("index_n_heads"), config.integer("index_head_dim")
    inside = at.under("self_attn.indexer")
    return [
        inside.linear("wq_b", heads * dim, config.integer("q_lora_rank"), Role.REPLICATED),
        inside.tensor("wk.weight", dim, hidden),
        inside.tensor("weights_proj.weight", heads, hidden),
        inside.tensor("k_norm.weight", dim, dtype="float32"),
        inside.tensor("k_norm.bias", dim, dtype="float32"),
    ]


def _experts(text: Text, *, corrected: bool, dtype: str) -> list[Part]:
    count = text.config.maybe_integer("n_routed_experts", low=0) or 0
    corrected = corrected or text.config.maybe_text("topk_method") == "noaux_tc"
    correction = CORRECTION if corrected else ""
    moe = sparse_layers(text) if count else []
    return mixture(text, moe, count=count, common=shared_width(text), dtype=dtype, correction=correction)


def latent_table(text: Text, *, traced: bool = True) -> list[Part]:
    """Return the rotary table of an MLA model.

    YaRN's is float32 in the classes that vLLM does not trace with torch.compile: they run the FlashInfer kernel, which
    wants it so.
    """
    section = text.config.maybe_section("rope_parameters", "rope_scaling")
    scaled = section is not None and section.maybe_text("rope_type", "type") not in (None, "default")
    dtype = MODEL if traced or not scaled else "float32"
    return rope_table(text.config, text.config.integer("qk_rope_head_dim"), dtype=dtype)


def deepseek_layers(text: Text, *, corrected: bool = False, dtype: str = MODEL) -> list[Part]:
    """Return the parts of a DeepSeek-V3 but for its rotary table.

    `corrected`: its routers always have a correction; else topk_method says so. `dtype` is that of the routers.
    """
    at, forward = text.at(), _experts(text, corrected=corrected, dtype=dtype)
    return [*ends(text), *latent_attention(at, text), *forward, *at.norms(text.hidden, *TWO_NORMS)]
