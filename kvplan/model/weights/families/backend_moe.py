"""Mixtures that vLLM 0.33 has no class for: its Transformers backend builds them from Hugging Face's own."""

from __future__ import annotations

from kvplan.model.weights.blocks import attention, experts, router
from kvplan.model.weights.dense import TWO_NORMS, frequencies
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.sparse import head_norms, mixture, row_norms, shared, shared_width, sparse_layers
from kvplan.model.weights.tensors import Part
from kvplan.model.weights.text import Text


@weighs("FlexOlmoForCausalLM")
def flex_olmo(text: Text) -> list[Part]:
    """Return the parts of a FlexOlmo: norms after each half of a layer."""
    at, hidden, count = text.at(), text.hidden, text.config.integer("num_experts")
    bias = text.flag("attention_bias")
    return [
        *ends(text),
        *attention(at, text, bias=bias, out_bias=bias),
        *row_norms(at, text),
        *router(at, count, hidden),
        *experts(at, count, hidden, text.intermediate),
        *at.norms(hidden, "post_attention_layernorm", "post_feedforward_layernorm"),
        *frequencies(text),
    ]


@weighs("Kolibri1ForCausalLM")
def kolibri(text: Text) -> list[Part]:
    """Return the parts of a Kolibri: four norms a layer, a shared expert."""
    at, hidden, config = text.at(), text.hidden, text.config
    count, width = config.integer("num_local_experts"), config.integer("moe_intermediate_size")
    return [
        *ends(text),
        *attention(at, text),
        *head_norms(at, text),
        *router(at, count, hidden),
        at.table("mlp.gate.e_score_correction_bias", count),
        *experts(at, count, hidden, width),
        *shared(at, hidden, config.integer("shared_expert_intermediate_size", low=0)),
        *at.norms(hidden, *TWO_NORMS, "post_self_attn_layernorm", "post_mlp_layernorm"),
        *frequencies(text),
    ]


@weighs("MellumForCausalLM")
def mellum(text: Text) -> list[Part]:
    """Return the parts of a Mellum mixture."""
    at, hidden, config = text.at(), text.hidden, text.config
    count = config.integer("num_local_experts", "num_experts")
    return [
        *ends(text),
        *attention(at, text),
        *head_norms(at, text),
        *router(at, count, hidden),
        *experts(at, count, hidden, config.integer("moe_intermediate_size")),
        *at.norms(hidden, *TWO_NORMS),
        *frequencies(text),
    ]


@weighs("HunYuanMoEV1ForCausalLM")
def hunyuan(text: Text) -> list[Part]:
    """Return the parts of a Hunyuan mixture, whose shared expert is as wide as a dense layer."""
    at, hidden, config, bias = text.at(), text.hidden, text.config, text.flag("attention_bias")
    count = config.integer("num_experts")
    width = text.same("moe_intermediate_size") if config.has("moe_intermediate_size") else text.intermediate
    return [
        *ends(text),
        *attention(at, text, bias=bias, out_bias=bias),
        *at.norms(text.shape.head_dim, "self_attn.query_layernorm", "self_attn.key_layernorm"),
        *router(at, count, hidden, name="mlp.gate.wg"),
        *experts(at, count, hidden, width),
        *shared(at, hidden, text.intermediate, "mlp.shared_mlp"),
        *at.norms(hidden, *TWO_NORMS),
        *frequencies(text),
    ]


@weighs("Dots1ForCausalLM")
def dots1(text: Text) -> list[Part]:
    """Return the parts of a dots.llm1: experts after dense layers, a correction of the router that is a buffer."""
    at, config, bias = text.at(), text.config, text.flag("attention_bias")
    moe, count = sparse_layers(text), config.integer("n_routed_experts")
    return [
        *ends(text),
        *attention(at, text, bias=bias, out_bias=bias),
        *head_norms(at, text),
        *mixture(text, moe, count=count, common=shared_width(text), correction=""),
        text.at(layers=moe).table("mlp.gate.e_score_correction_bias", count),
        *at.norms(text.hidden, *TWO_NORMS),
        *frequencies(text),
    ]


@weighs("SolarOpenForCausalLM")
def solar_open(text: Text) -> list[Part]:
    """Return the parts of a Solar Open: shared experts, and a correction of the router that is a buffer."""
    at, hidden, config = text.at(), text.hidden, text.config
    count, bias = config.integer("n_routed_experts"), text.flag("attention_bias")
    return [
        *ends(text),
        *attention(at, text, bias=bias),
        *router(at, count, hidden),
        at.table("mlp.gate.e_score_correction_bias", count),
        *experts(at, count, hidden, config.integer("moe_intermediate_size")),
        *shared(at, hidden, shared_width(text)),
        *at.norms(hidden, *TWO_NORMS),
        *frequencies(text),
    ]
