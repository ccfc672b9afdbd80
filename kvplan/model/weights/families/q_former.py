"""Wrappers with a Q-Former between encoder and language model: BLIP-2 and Granite Speech."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.weights.families import weighs
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import MODEL, Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import encoder_layer, language_model, section, tower

_TOWER = Role.TOWER


def q_former(at: Scope, config: Fields) -> list[Part]:
    """Return a Q-Former: queries that attend to each other and, in every few layers, to the encoder."""
    hidden, count = config.integer("hidden_size"), config.integer("num_hidden_layers")
    layers = at.under("encoder.layer.{}").copies(count)
    crossing = layers.copies(-(-count // config.integer("cross_attention_frequency")))
    width, seen = config.integer("intermediate_size"), config.integer("encoder_hidden_size")
    return [
        *at.norm("layernorm", hidden, bias=True),
        *_attention(layers.under("attention"), hidden, hidden),
        *_attention(crossing.under("crossattention"), hidden, seen),
        layers.linear("intermediate_query.dense", width, hidden, _TOWER, bias=True),
        layers.linear("output_query.dense", hidden, width, _TOWER, bias=True),
        *layers.norm("output_query.LayerNorm", hidden, bias=True),
    ]


def _attention(at: Scope, hidden: int, seen: int) -> list[Part]:
    inside = at.under("attention")
    return [
        inside.linear("query", hidden, hidden, _TOWER, bias=True),
        inside.linear("key", hidden, seen, _TOWER, bias=True),
        inside.linear("value", hidden, seen, _TOWER, bias=True),
        at.linear("output.dense", hidden, hidden, _TOWER, bias=True),
        *at.norm("output.LayerNorm", hidden, bias=True),
    ]


@weighs("Blip2ForConditionalGeneration")
def blip2(text: Text) -> list[Part]:
    """Return the parts of a BLIP-2."""
    vision, former = section(text), section(text, "qformer_config")
    hidden, at = vision.integer("hidden_size"), tower("vision_model")
    patch, queries = vision.integer("patch_size"), text.config.root.integer("num_query_tokens")
    positions = (vision.integer("image_size") // patch) ** 2 + 1
    layers = at.under("encoder.layers.{}").copies(vision.integer("num_hidden_layers"))
    names = ("self_attn.qkv", "self_attn.qkv", "self_attn.qkv")
    return [
        tower("").tensor("query_tokens", 1, queries, former.integer("hidden_size")),
        at.tensor("embeddings.class_embedding", 1, 1, hidden),
        at.tensor("embeddings.position_embedding", 1, positions, hidden),
        at.tensor("embeddings.patch_embedding.weight", hidden, 3, patch, patch),
        at.tensor("embeddings.patch_embedding.bias", hidden),
        *encoder_layer(layers, hidden, vision.integer("intermediate_size"), names=names, out="self_attn.projection"),
        *at.norm("post_layernorm", hidden, bias=True),
        *q_former(tower("qformer"), former),
        tower("").linear("language_projection", text.hidden, former.integer("hidden_size"), _TOWER, bias=True),
        *language_model(text),
    ]


@weighs("GraniteSpeechForConditionalGeneration", "GraniteSpeechPlusForConditionalGeneration")
def granite_speech(text: Text) -> list[Part]:
    """Return the parts of a Granite Speech: a conformer, a Q-Former over windows of it, and a Granite."""
    former, at, root = section(text, "projector_config"), tower("projector"), text.config.root
    hidden = former.integer("hidden_size")
    queries = root.integer("window_size") // root.integer("downsample_rate")
    return [
        *_conformer(section(text, "encoder_config")),
        at.tensor("query", 1, queries, hidden),
        *q_former(at.under("qformer"), former),
        at.linear("linear", text.hidden, hidden, _TOWER, bias=True),
        *language_model(text, "GraniteForCausalLM"),
    ]


def _conformer(config: Fields) -> list[Part]:
    """Return the encoder: two half feed-forward layers around attention with relative positions and a convolution."""
    at, hidden, outputs = tower("encoder"), config.integer("hidden_dim"), config.integer("output_dim")
    layers = at.under("layers.{}").copies(config.integer("num_layers"))
    wide, dim = hidden * config.integer("feedforward_mult"), config.integer("dim_head")
    inner, channels = config.integer("num_heads") * dim, hidden * config.integer("conv_expansion_factor")
    halves: list[Part] = []
    for half in ("ff1", "ff2"):
        halves += layers.norm(f"{half}.pre_norm", hidden, bias=True)
        halves.append(layers.linear(f"{half}.up_proj", wide, hidden, bias=True))
        halves.append(layers.linear(f"{half}.down_proj", hidden, wide, Role.ROW, bias=True))
    return [
        at.linear("input_linear", hidden, config.integer("input_dim"), _TOWER, bias=True),
        *halves,
        *layers.norm("attn.pre_norm", hidden, bias=True),
        layers.linear("attn.to_q", inner, hidden, _TOWER),
        layers.linear("attn.to_kv", 2 * inner, hidden, _TOWER),
        layers.linear("attn.to_out", hidden, inner, _TOWER, bias=True),
        layers.tensor("attn.rel_pos_emb.weight", 2 * config.integer("max_pos_emb") + 1, dim),
        *layers.norm("conv.norm", hidden, bias=True),
        layers.tensor("conv.up_conv.weight", 2 * channels, hidden, 1),
        layers.tensor("conv.up_conv.bias", 2 * channels),
        layers.tensor("conv.depth_conv.conv.weight", channels, 1, config.integer("conv_kernel_size")),
        *layers.norm("conv.batch_norm", channels, bias=True),
        *(layers.table(f"conv.batch_norm.running_{name}", channels, dtype=MODEL) for name in ("mean", "var")),
        layers.table("conv.batch_norm.num_batches_tracked", dtype="int64"),
        layers.tensor("conv.down_conv.weight", hidden, channels, 1),
        layers.tensor("conv.down_conv.bias", hidden),
        *layers.norm("post_norm", hidden, bias=True),
        at.linear("out", outputs, hidden, bias=True),
        at.linear("out_mid", hidden, outputs, Role.ROW, bias=True),
    ]
