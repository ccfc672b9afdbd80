"""Molmo and Aria: language models with a tower whose patches are pooled by attention."""

from __future__ import annotations

from dataclasses import replace

from kvplan.model.weights.blocks import attention, experts, fused, gated, rope
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.sparse import shared
from kvplan.model.weights.tensors import Linear, Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import NESTED, encoder_layer, renamed, section, siglip, tower

# Molmo's tower is OpenAI's CLIP ViT-L at 336 pixels, whatever the config: 23 layers, outputs of two of them are pooled
_WIDTH, _LAYERS, _MLP, _PATCHES, _PATCH, _POOLED = 1024, 23, 4096, 576, 14, 2


@weighs("MolmoForCausalLM")
def molmo(text: Text) -> list[Part]:
    """Return the parts of a Molmo; its embedding has extra rows for the tokens of images."""
    config, at = text.config, text.at()
    names = fused("self_attn.att_proj", "self_attn.attn_out")
    width = text.intermediate // 2
    extra = config.maybe_integer("additional_vocab_size", low=0)
    rows = config.integer("embedding_size", "vocab_size") + (128 if extra is None else extra)
    norms = ("input_layernorm", "post_attention_layernorm")
    parts = [
        *ends(text, tied=text.flag("weight_tying")),
        *attention(at, text, bias=text.flag("qkv_bias"), names=names),
        *gated(at, text.hidden, width),
        *at.norms(text.hidden, *norms),
        *rope(text),
        *_molmo_tower(text),
    ]
    return [_enlarged(part, rows) for part in parts]


def _enlarged(part: Part, rows: int) -> Part:
    return replace(part, rows=rows) if isinstance(part, Linear) and part.kind == "embedding" else part


def _molmo_tower(text: Text) -> list[Part]:
    at, wide = tower("vision_backbone"), _POOLED * _WIDTH
    inside, pool, projector = at.under("image_vit"), at.under("image_pooling_2d"), at.under("image_projector")
    layers = inside.under("transformer.resblocks.{}").copies(_LAYERS)
    width = text.intermediate // 2
    return [
        at.tensor("pad_embed", 2, wide),
        inside.tensor("class_embedding", _WIDTH),
        inside.tensor("positional_embedding", _PATCHES + 1, _WIDTH),
        inside.linear("patch_embedding", _WIDTH, 3 * _PATCH * _PATCH, Role.TOWER),
        *inside.norm("pre_ln", _WIDTH, bias=True),
        *encoder_layer(
            layers, _WIDTH, _MLP, names=("attention.wq", "attention.wk", "attention.wv"), out="attention.wo",
            forward=("feed_forward.w1", "feed_forward.w2"), norms=("attention_norm", "ffn_norm"),
        ),
        *(pool.linear(name, _WIDTH, wide, bias=True) for name in ("wq", "wk", "wv")),
        pool.linear("wo", _WIDTH, _WIDTH, Role.ROW, bias=True),
        projector.linear("w1", width, _WIDTH),
        projector.linear("w3", width, _WIDTH, leads=False),
        projector.linear("w2", text.hidden, width, Role.ROW),
    ]  # fmt: skip


@weighs("AriaForConditionalGeneration")
def aria(text: Text) -> list[Part]:
    """Return the parts of an Aria: an Idefics tower, a pooling projector and a mixture with shared experts."""
    vision, config = section(text), text.config
    inner = replace(text, architecture="AriaTextForCausalLM", nested=True)
    at, hidden, count = text.at(), text.hidden, config.integer("moe_num_experts")
    common = text.intermediate * config.integer("moe_num_shared_experts", low=0)
    language = [
        *ends(inner),
        *attention(at, text),
        at.tensor("mlp.router.weight", count, hidden),
        *experts(at, count, hidden, text.intermediate),
        *shared(at, hidden, common),
        *at.norms(hidden, *TWO_NORMS),
        *rope(text),
    ]
    return [
        *siglip("vision_tower", vision, ids=False, last_norm=False),
        *_aria_projector(text, vision.integer("hidden_size")),
        *renamed(language, NESTED),
    ]


def _aria_projector(text: Text, width: int) -> list[Part]:
    at, hidden = tower("multi_modal_projector"), text.hidden
    queries = text.config.root.integer("max_value_projector_patch_to_query_dict", default=256)
    inside, whole = at.under("cross_attn"), Role.TOWER
    return [
        at.tensor("query", queries, width),
        *(inside.linear(name, width, width, whole) for name in ("q_proj", "k_proj", "v_proj")),
        inside.linear("multihead_attn.in_proj", 3 * width, width, whole, bias=True),
        inside.linear("multihead_attn.out_proj", width, width, whole, bias=True),
        inside.linear("linear", width, width, whole, bias=True),
        *inside.norms(width, "layer_norm", "layer_norm_kv", bias=True),
        *at.norm("layer_norm", width, bias=True),
        at.linear("feed_forward.linear_in", hidden, width),
        at.linear("feed_forward.linear_out", hidden, hidden, Role.ROW),
    ]
