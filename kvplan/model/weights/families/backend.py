"""Dense decoders that vLLM 0.33 has no class for: its Transformers backend builds them from Hugging Face's own.

The backend keeps inverse frequencies in place of a rope table, and splits what it can tell to be split.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.model.weights.dense import dense, frequencies
from kvplan.model.weights.families import weighs
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Linear, Part, Role
from kvplan.model.weights.text import Text


@weighs("CwmForCausalLM", "NanbeigeForCausalLM", "SmolLM3ForCausalLM", "HeliumForCausalLM")
def llama_like(text: Text) -> list[Part]:
    """Return the parts of a decoder that is a Llama but for its name."""
    bias = text.flag("attention_bias")
    return dense(text, qkv_bias=bias, out_bias=bias, mlp_bias=text.flag("mlp_bias"), tables=frequencies(text))


@weighs("ArceeForCausalLM")
def arcee(text: Text) -> list[Part]:
    """Return the parts of an Arcee: a feed-forward layer without a gate."""
    bias = text.flag("attention_bias")
    names = ("mlp.up_proj", "mlp.down_proj")
    return dense(
        text, qkv_bias=bias, out_bias=bias, mlp_bias=text.flag("mlp_bias"), feed_forward=names, tables=frequencies(text)
    )


@weighs("SeedOssForCausalLM")
def seed(text: Text) -> list[Part]:
    """Return the parts of a Seed-OSS."""
    return dense(
        text,
        qkv_bias=text.flag("attention_bias"),
        out_bias=text.flag("attention_out_bias"),
        mlp_bias=text.flag("mlp_bias"),
        tables=frequencies(text),
    )


@weighs("GlmForCausalLM")
def glm(text: Text) -> list[Part]:
    """Return the parts of a GLM-4 (9B) in the Hugging Face layout."""
    return dense(
        text,
        qkv_bias=text.flag("attention_bias"),
        feed_forward=("mlp.gate_up_proj", "mlp.gate_up_proj", "mlp.down_proj"),
        tables=frequencies(text, partial=0.5),
    )


@weighs("OlmoForCausalLM")
def olmo(text: Text) -> list[Part]:
    """Return the parts of an OLMo, whose norms have no weights."""
    bias = text.flag("attention_bias")
    return dense(text, norms=(), last_norm="", qkv_bias=bias, out_bias=bias, tables=frequencies(text))


@weighs("Olmo2ForCausalLM", "Olmo3ForCausalLM")
def olmo2(text: Text) -> list[Part]:
    """Return the parts of an OLMo 2 or 3: norms after each half, query and key normalised over all channels."""
    bias = text.flag("attention_bias")
    return dense(
        text,
        norms=("post_attention_layernorm", "post_feedforward_layernorm"),
        qkv_bias=bias,
        out_bias=bias,
        row_norms=True,
        tables=frequencies(text, kinds=1 if text.architecture == "Olmo2ForCausalLM" else 2),
    )


@weighs("Jais2ForCausalLM")
def jais2(text: Text) -> list[Part]:
    """Return the parts of a Jais 2: biases throughout, no gate."""
    bias = text.flag("attention_bias")
    return dense(
        text,
        norm_bias=True,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=text.flag("mlp_bias"),
        feed_forward=("mlp.up_proj", "mlp.down_proj"),
        tables=frequencies(text),
    )


@weighs("HunYuanDenseV1ForCausalLM")
def hunyuan(text: Text) -> list[Part]:
    """Return the parts of a dense Hunyuan: query and key are normalised head by head."""
    bias, at = text.flag("attention_bias"), text.at()
    return [
        *dense(text, qkv_bias=bias, out_bias=bias, tables=frequencies(text)),
        *at.norms(text.shape.head_dim, "self_attn.query_layernorm", "self_attn.key_layernorm"),
    ]


@weighs("BitNetForCausalLM")
def bitnet(text: Text) -> list[Part]:
    """Return the parts of a BitNet: norms inside both halves of a layer; they keep its last matrix whole."""
    bias, at = text.flag("attention_bias"), text.at()
    parts = dense(text, qkv_bias=bias, out_bias=bias, tables=frequencies(text))
    return [
        *(_whole(part) if part.name.endswith("down_proj") else part for part in parts),
        *at.norm("self_attn.attn_sub_norm", text.hidden),
        *at.norm("mlp.ffn_sub_norm", text.intermediate),
    ]


def _whole(part: Part) -> Part:
    return replace(part, role=Role.REPLICATED) if isinstance(part, Linear) else part


@weighs("PhiForCausalLM")
def phi(text: Text) -> list[Part]:
    """Return the parts of a Phi-1 or Phi-2."""
    parts = dense(
        text,
        norms=("input_layernorm",),
        norm_bias=True,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        head_norms=text.flag("qk_layernorm"),
        projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.dense"),
        feed_forward=("mlp.fc1", "mlp.fc2"),
        tables=frequencies(text, partial=0.5),
    )
    # the backend's output head has no bias, so that the stored one is dropped
    return [*parts, Scope().tensor("lm_head.bias", text.vocabulary, holder="checkpoint")]


@weighs("Starcoder2ForCausalLM")
def starcoder2(text: Text) -> list[Part]:
    """Return the parts of a StarCoder 2."""
    bias = text.flag("use_bias", default=True)
    return dense(
        text,
        norm_bias=True,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        feed_forward=("mlp.c_fc", "mlp.c_proj"),
        tied=text.flag("tie_word_embeddings", default=True),
        tables=frequencies(text),
    )
