"""Qwen's mixtures with grouped-query attention: Qwen1.5, Qwen2 and Qwen3."""

from __future__ import annotations

from kvplan.model.weights.blocks import attention, experts, gated, rope, router
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.sparse import head_norms, rest, shared
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text


def qwen_sparse(text: Text, count: int) -> list[int]:
    """Return the layers that have experts: every decoder_sparse_step-th but those of mlp_only_layers."""
    step = text.config.maybe_integer("decoder_sparse_step") or 1
    dense = set(text.config.maybe_integers("mlp_only_layers") or [])
    return [i for i in text.layers if count and i not in dense and (i + 1) % step == 0]


@weighs("Qwen3MoeForCausalLM")
def qwen3_moe(text: Text) -> list[Part]:
    """Return the parts of a Qwen3 mixture, whose router is a matrix like others to a quantisation method."""
    at, hidden, count = text.at(), text.hidden, text.config.integer("num_experts", "num_local_experts")
    bias, moe = text.flag("attention_bias"), qwen_sparse(text, count)
    sparse, dense = text.at(layers=moe), rest(text, moe)
    return [
        *ends(text),
        *attention(at, text, bias=bias, out_bias=bias),
        *head_norms(at, text),
        *(gated(text.at(layers=dense), hidden, text.intermediate) if dense else []),
        sparse.linear("mlp.gate", count, hidden, Role.REPLICATED),
        *experts(sparse, count, hidden, text.config.integer("moe_intermediate_size")),
        *at.norms(hidden, *TWO_NORMS),
        *rope(text, copies=1),
    ]


@weighs("Qwen2MoeForCausalLM")
def qwen2_moe(text: Text) -> list[Part]:
    """Return the parts of a Qwen2 mixture: a gated shared expert, biases on query, key and value."""
    at, hidden, count = text.at(), text.hidden, text.config.integer("num_experts")
    sparse = qwen_sparse(text, count)
    dense = rest(text, sparse)
    return [
        *ends(text),
        *attention(at, text, bias=text.flag("qkv_bias", default=True)),
        *qwen_experts(text.at(layers=sparse), text, count),
        *(gated(text.at(layers=dense), hidden, text.intermediate) if dense else []),
        *at.norms(hidden, *TWO_NORMS),
        *rope(text),
    ]


def qwen_experts(at: Scope, text: Text, count: int) -> list[Part]:
    """Return routed experts and the shared one, which has a gate of its own."""
    hidden, config = text.hidden, text.config
    width = config.integer("shared_expert_intermediate_size", low=0)
    return [
        *router(at, count, hidden),
        *experts(at, count, hidden, config.integer("moe_intermediate_size")),
        *shared(at, hidden, width, "mlp.shared_expert"),
        *([at.tensor("mlp.shared_expert_gate.weight", 1, hidden)] if width else []),
    ]
