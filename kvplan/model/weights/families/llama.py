"""Llama and what is built like it: grouped-query attention, a gated feed-forward layer, two norms a layer."""

from __future__ import annotations

from kvplan.model.weights.blocks import fused, rope
from kvplan.model.weights.dense import TWO_NORMS, dense
from kvplan.model.weights.families import weighs
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role, Stage
from kvplan.model.weights.text import Text


@weighs("LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel", "MistralForCausalLM", "MistralModel")
@weighs("TeleFLMForCausalLM")
@weighs("Ministral3ForCausalLM", "AquilaForCausalLM", "InternLMForCausalLM", "XverseForCausalLM")
@weighs("TeleChat3ForCausalLM", "IQuestCoderForCausalLM", "Fairseq2LlamaForCausalLM", "SolarForCausalLM")
@weighs("LlamaBidirectionalModel", "LlamaBidirectionalForSequenceClassification")
def llama(text: Text) -> list[Part]:
    """Return the parts of a Llama or a Mistral."""
    bias = text.flag("attention_bias", "bias")
    return dense(text, qkv_bias=bias, out_bias=bias, mlp_bias=text.flag("mlp_bias"))


@weighs("InternLM3ForCausalLM")
def internlm3(text: Text) -> list[Part]:
    """Return the parts of an InternLM 3."""
    bias = text.flag("bias")
    return dense(text, qkv_bias=text.flag("qkv_bias"), out_bias=bias, mlp_bias=bias)


@weighs("Ernie4_5ForCausalLM")
def ernie(text: Text) -> list[Part]:
    """Return the parts of a dense Ernie 4.5."""
    bias = text.flag("use_bias")
    return dense(text, qkv_bias=bias, out_bias=bias, mlp_bias=bias)


@weighs("GraniteForCausalLM")
def granite(text: Text) -> list[Part]:
    """Return the parts of a Granite."""
    bias = text.flag("attention_bias")
    return dense(text, qkv_bias=bias, out_bias=bias, mlp_bias=text.flag("mlp_bias"))


@weighs("GraniteSWAForCausalLM")
def granite_swa(text: Text) -> list[Part]:
    """Return the parts of a Granite with sliding windows, whose heads have sinks."""
    return [*granite(text), text.at().tensor("self_attn.sinks", text.shape.heads, role=Role.COLUMN)]


@weighs("TeleChat2ForCausalLM", "TeleChatForCausalLM")
def telechat2(text: Text) -> list[Part]:
    """Return the parts of a TeleChat 2: biases on the output and down projections alone; keys beside values."""
    names = ("self_attention.query", "self_attention.key_value", "self_attention.key_value", "self_attention.dense")
    at = text.at()
    down_bias = at.tensor("mlp.down_proj.bias", text.hidden)
    return [*dense(text, out_bias=True, projections=names), down_bias]


@weighs("PanguEmbeddedForCausalLM")
def pangu(text: Text) -> list[Part]:
    """Return the parts of an openPangu: biases in attention only."""
    bias = text.flag("attention_bias", "bias")
    return dense(text, qkv_bias=bias, out_bias=bias)


@weighs("OrionForCausalLM")
def orion(text: Text) -> list[Part]:
    """Return the parts of an Orion: a Llama whose norms have biases."""
    return dense(text, norm_bias=True)


@weighs("HyperCLOVAXForCausalLM")
def hyperclova(text: Text) -> list[Part]:
    """Return the parts of a HyperCLOVA X: norms after both halves of a layer where use_post_norm says so."""
    bias = text.flag("attention_bias")
    norms = ["input_layernorm", "post_attention_layernorm"]
    if text.flag("use_post_norm"):
        norms += ["post_norm1", "post_norm2"]
    return dense(text, norms=norms, qkv_bias=bias, out_bias=bias, mlp_bias=text.flag("mlp_bias"))


@weighs("Phi3ForCausalLM")
def phi3(text: Text) -> list[Part]:
    """Return the parts of a Phi-3 or Phi-4, which store query, key and value, and gate and up, as one matrix each."""
    return dense(
        text,
        projections=fused("self_attn.qkv_proj", "self_attn.o_proj"),
        feed_forward=("mlp.gate_up_proj", "mlp.gate_up_proj", "mlp.down_proj"),
    )


@weighs("Qwen2ForCausalLM", "Qwen2Model", "MiMoForCausalLM")
def qwen2(text: Text) -> list[Part]:
    """Return the parts of a Qwen2: biases on query, key and value."""
    return dense(text, qkv_bias=True)


@weighs("Qwen2ForRewardModel", "Qwen2ForProcessRewardModel")
def qwen2_reward(text: Text) -> list[Part]:
    """Return the parts of a Qwen2 reward model: two float32 layers that give one score, or two for each step."""
    at, hidden = Scope(stage=Stage.LAST), text.hidden
    scores = 2 if text.architecture == "Qwen2ForProcessRewardModel" else 1
    return [
        *dense(text, qkv_bias=True),
        at.tensor("score.0.weight", hidden, hidden, role=Role.COLUMN, dtype="float32"),
        at.tensor("score.0.bias", hidden, role=Role.COLUMN, dtype="float32"),
        at.tensor("score.2.weight", scores, hidden, role=Role.ROW, axis=1, dtype="float32"),
        at.tensor("score.2.bias", scores, dtype="float32"),
    ]


@weighs("Qwen3ForCausalLM", "Qwen3Model", "VoyageQwen3BidirectionalEmbedModel")
def qwen3(text: Text) -> list[Part]:
    """Return the parts of a Qwen3: query and key are normalised head by head."""
    bias = text.flag("attention_bias")
    tables = rope(text, copies=1)  # Qwen3-VL's positions count tokens, so that its table is not enlarged
    return dense(text, qkv_bias=bias, out_bias=bias, head_norms=True, tables=tables)


@weighs("ExaoneForCausalLM")
def exaone(text: Text) -> list[Part]:
    """Return the parts of an Exaone 3."""
    bias = text.flag("attention_bias", "bias")
    return dense(text, qkv_bias=bias, out_bias=bias, mlp_bias=text.flag("mlp_bias"))


@weighs("Exaone4ForCausalLM")
def exaone4(text: Text) -> list[Part]:
    """Return the parts of an Exaone 4: norms after each half of a layer."""
    return dense(text, norms=("post_attention_layernorm", "post_feedforward_layernorm"), head_norms=True)


@weighs("CohereForCausalLM", "Cohere2ForCausalLM")
def cohere(text: Text) -> list[Part]:
    """Return the parts of a Command R or Aya: one norm a layer, and the embedding projects as well."""
    parts = dense(text, norms=("input_layernorm",), tied=True, qkv_bias=text.flag("attention_bias"))
    if text.flag("use_qk_norm"):
        at, dim, keys = text.at(), text.shape.head_dim, text.shape.kv_heads
        parts.append(at.tensor("self_attn.q_norm.weight", text.shape.heads, dim, role=Role.COLUMN))
        parts.append(at.tensor("self_attn.k_norm.weight", keys, dim, role=Role.KV, heads=keys))
    return parts


@weighs("StableLmForCausalLM", "StableLMEpochForCausalLM")
def stablelm(text: Text) -> list[Part]:
    """Return the parts of a StableLM: norms with biases, a quarter of each head rotated."""
    return dense(text, norm_bias=True, qkv_bias=text.flag("use_qkv_bias"), tables=rope(text, partial=0.25))


@weighs("Glm4ForCausalLM")
def glm4(text: Text) -> list[Part]:
    """Return the parts of a GLM-4-0414: norms before and after each half, half of each head rotated."""
    return dense(
        text,
        norms=(*TWO_NORMS, "post_self_attn_layernorm", "post_mlp_layernorm"),
        qkv_bias=text.flag("attention_bias"),
        feed_forward=("mlp.gate_up_proj", "mlp.gate_up_proj", "mlp.down_proj"),
        tables=rope(text, partial=0.5),
    )
