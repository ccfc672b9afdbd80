"""Mixtures whose layers are all alike: Mixtral, PhiMoE, OLMoE, DBRX, MiniMax-M2, Granite's."""

from __future__ import annotations

from kvplan.model.weights.blocks import attention, experts, fused, gated, rope, router
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.sparse import W123, row_norms
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text

_BLOCK = "block_sparse_moe"


def _block(at: Scope, text: Text) -> list[Part]:
    """Return the router and the experts under Mixtral's names."""
    count, hidden = text.config.integer("num_local_experts"), text.hidden
    return [
        *router(at, count, hidden, name=f"{_BLOCK}.gate"),
        *experts(at, count, hidden, text.intermediate, within=f"{_BLOCK}.experts.{{}}", names=W123),
    ]


@weighs("MixtralForCausalLM")
def mixtral(text: Text) -> list[Part]:
    """Return the parts of a Mixtral."""
    at = text.at()
    return [*ends(text), *attention(at, text), *_block(at, text), *at.norms(text.hidden, *TWO_NORMS), *rope(text)]


@weighs("PhiMoEForCausalLM", "PhimoeForCausalLM")
def phimoe(text: Text) -> list[Part]:
    """Return the parts of a Phi-3.5-MoE: norms, attention and head with biases."""
    at, bias = text.at(), text.flag("attention_bias")
    return [
        *ends(text, norm_bias=True, head_bias=text.flag("lm_head_bias")),
        *attention(at, text, bias=bias, out_bias=bias),
        *_block(at, text),
        *at.norms(text.hidden, *TWO_NORMS, bias=True),
        *rope(text),
    ]


@weighs("MiniMaxM2ForCausalLM")
def minimax_m2(text: Text) -> list[Part]:
    """Return the parts of a MiniMax-M2: float32 routers, query and key normalised over the rank's own channels."""
    at, hidden, shape = text.at(), text.hidden, text.shape
    count = text.config.integer("num_local_experts")
    correction = f"{_BLOCK}.e_score_correction_bias"
    return [
        *ends(text),
        *attention(at, text),
        at.tensor("self_attn.q_norm.weight", shape.heads * shape.head_dim, role=Role.COLUMN),
        at.tensor("self_attn.k_norm.weight", shape.kv_heads * shape.head_dim, role=Role.KV, heads=shape.kv_heads),
        *router(at, count, hidden, name=f"{_BLOCK}.gate", dtype="float32", correction=correction),
        *experts(at, count, hidden, text.intermediate, within=f"{_BLOCK}.experts.{{}}", names=W123),
        *at.norms(hidden, *TWO_NORMS),
        *rope(text),
    ]


@weighs("OlmoeForCausalLM")
def olmoe(text: Text) -> list[Part]:
    """Return the parts of an OLMoE: query and key normalised over all channels."""
    at, hidden, count = text.at(), text.hidden, text.config.integer("num_experts")
    return [
        *ends(text),
        *attention(at, text),
        *row_norms(at, text),
        *router(at, count, hidden),
        *experts(at, count, hidden, text.intermediate),
        *at.norms(hidden, *TWO_NORMS),
        *rope(text),
    ]


@weighs("DbrxForCausalLM")
def dbrx(text: Text) -> list[Part]:
    """Return the parts of a DBRX: experts stored as one stack, norms without biases."""
    at, hidden = text.at("transformer.blocks.{}"), text.hidden
    forward = text.config.maybe_section("ffn_config")
    if forward is None:
        raise text.config.lacks("ffn_config")
    count, width = forward.integer("moe_num_experts"), forward.integer("ffn_hidden_size")
    names = fused("norm_attn_norm.attn.Wqkv", "norm_attn_norm.attn.out_proj")
    return [
        *ends(text, embedding="transformer.wte", norm="transformer.norm_f", tied=False),
        *attention(at, text, names=names),
        *router(at, count, hidden, name="ffn.router.layer"),
        *experts(at, count, hidden, width, within="ffn.experts.mlp", names=("w1", "v1", "w2")),
        *at.norms(hidden, "norm_attn_norm.norm_1", "norm_attn_norm.norm_2"),
        *rope(text, positions=text.config.integer("max_seq_len")),
    ]


# -- Granite ----------------------------------------------------------------------------------------------------------


@weighs("GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM", "GraniteMoeSWAForCausalLM")
def granitemoe(text: Text) -> list[Part]:
    """Return the parts of a Granite mixture; some have a shared expert, some sinks."""
    at, hidden, bias = text.at(), text.hidden, text.flag("attention_bias")
    parts = [
        *ends(text),
        *attention(at, text, bias=bias, out_bias=bias),
        *granite_experts(at, text),
        *at.norms(hidden, *TWO_NORMS),
        *rope(text),
    ]
    if text.architecture != "GraniteMoeForCausalLM":
        parts += granite_shared(at, text)
    if text.architecture == "GraniteMoeSWAForCausalLM":
        parts.append(at.tensor("self_attn.sinks", text.shape.heads, role=Role.COLUMN))
    return parts


def granite_experts(at: Scope, text: Text) -> list[Part]:
    """Return a Granite's router and experts, whose gate and up are one stacked tensor; none where it is dense."""
    count = text.config.maybe_integer("num_local_experts", low=0)
    if not count:
        return []
    names = ("input_linear", "input_linear", "output_linear")
    return [
        *router(at, count, text.hidden, name=f"{_BLOCK}.router.layer"),
        *experts(at, count, text.hidden, text.intermediate, within=_BLOCK, names=names),
    ]


def granite_shared(at: Scope, text: Text) -> list[Part]:
    """Return a Granite's shared expert, where it has one."""
    width = text.config.maybe_integer("shared_intermediate_size", low=0)
    names = ("shared_mlp.input_linear", "shared_mlp.input_linear", "shared_mlp.output_linear")
    return gated(at, text.hidden, width, names=names) if width else []
