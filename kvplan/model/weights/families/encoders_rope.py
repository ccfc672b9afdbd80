"""Encoders with rotary positions and gated layers: Nomic's, GTE's and Snowflake's."""

from __future__ import annotations

from kvplan.model.weights.blocks import attention, fused, gated
from kvplan.model.weights.ends import classifier
from kvplan.model.weights.families import weighs
from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text

_NAMES = fused("attn.qkv_proj", "attn.out_proj")
_GATED = ("mlp.up_gate_proj", "mlp.up_gate_proj", "mlp.down_proj")


@weighs("NomicBertModel")
def nomic(text: Text) -> list[Part]:
    """Return the parts of a Nomic embedding model: no biases but where the config asks for them."""
    config = text.config
    if config.maybe_integer("moe_every_n_layers", low=0):
        raise config.bad("moe_every_n_layers", "0 for weights that are computed", config.raw("moe_every_n_layers"))
    bias = text.flag("qkv_proj_bias")
    forward = gated(
        text.at("encoder.layers.{}"), text.hidden, text.intermediate, bias=text.flag("mlp_fc1_bias"), names=_GATED
    )
    longest = config.integer("max_trained_positions", "n_positions", "max_position_embeddings")
    return [
        *_outside(text, types=config.integer("type_vocab_size", low=0)),
        *attention(text.at("encoder.layers.{}"), text, bias=bias, out_bias=bias, names=_NAMES),
        *forward,
        *rope_table(config, text.shape.head_dim, positions=longest),
    ]


@weighs("GteModel", "GteNewModel", "GteNewForSequenceClassification")
def gte(text: Text) -> list[Part]:
    """Return the parts of a GTE or Snowflake Arctic embedding model: biases, but none on gate and up."""
    at, hidden = text.at("encoder.layers.{}"), text.hidden
    return [
        *_outside(text, types=text.config.integer("type_vocab_size", low=0)),
        *attention(at, text, bias=True, out_bias=True, names=_NAMES),
        *gated(at, hidden, text.intermediate, names=_GATED),
        at.tensor("mlp.down_proj.bias", hidden),
        *rope_table(text.config, text.shape.head_dim),
        *(classifier(text, pooled=True) if text.architecture.endswith("Classification") else []),
    ]


def _outside(text: Text, *, types: int) -> list[Part]:
    """Return the embeddings and the norms, which are alike."""
    first, hidden, at = Scope("embeddings."), text.hidden, text.at("encoder.layers.{}")
    parts: list[Part] = [
        first.tensor("word_embeddings.weight", text.vocabulary, hidden, role=Role.VOCABULARY),
        *first.norm("LayerNorm", hidden, bias=True),
        *at.norms(hidden, "attn_ln", "mlp_ln", bias=True),
    ]
    if types:
        parts.append(first.tensor("token_type_embeddings.weight", types, hidden, role=Role.VOCABULARY))
    return parts
