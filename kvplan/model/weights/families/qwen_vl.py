"""The vision towers of Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3.5 and GLM-4V, and the wrappers that use them."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.weights.families import weighs
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import encoder_layer, language_model, position_ids, rotary, section, tower

_ROTARY_POSITIONS = 8192
QKV = ("attn.qkv", "attn.qkv", "attn.qkv")


def _patches(at: Scope, config: Fields, hidden: int, *, bias: bool) -> list[Part]:
    channels = config.maybe_integer("in_channels", "in_chans") or 3
    patch, frames = config.integer("patch_size"), config.integer("temporal_patch_size")
    parts: list[Part] = [at.tensor("patch_embed.proj.weight", hidden, channels, frames, patch, patch)]
    return [*parts, at.tensor("patch_embed.proj.bias", hidden)] if bias else parts


def _merger(at: Scope, width: int, out: int, names: tuple[str, str]) -> list[Part]:
    return [
        at.linear(names[0], width, width, bias=True),
        at.linear(names[1], out, width, Role.ROW, bias=True),
    ]


def _table(hidden: int, heads: int) -> Part:
    """Return the rotary table: half of a head is turned by the row, half by the column."""
    return rotary("visual", _ROTARY_POSITIONS, hidden // heads // 2)


# -- Qwen2-VL and 2.5 -------------------------------------------------------------------------------------------------


@weighs("Qwen2VLForConditionalGeneration")
def qwen2_vl(text: Text) -> list[Part]:
    """Return the parts of a Qwen2-VL."""
    config, at = section(text), tower("visual")
    hidden = config.integer("embed_dim")
    width = int(hidden * (config.maybe_number("mlp_ratio") or 4))
    merged = hidden * config.integer("spatial_merge_size") ** 2
    blocks = at.under("blocks.{}").copies(config.integer("depth"))
    return [
        *_patches(at, config, hidden, bias=False),
        *encoder_layer(blocks, hidden, width, names=QKV, out="attn.proj", norms=("norm1", "norm2")),
        *at.norm("merger.ln_q", hidden, bias=True),
        *_merger(at, merged, config.integer("hidden_size"), ("merger.mlp.0", "merger.mlp.2")),
        _table(hidden, config.integer("num_heads")),
        *language_model(text, "Qwen2ForCausalLM"),
    ]


def gated_tower(config: Fields, *, kv_heads: int | None = None) -> list[Part]:
    """Return the tower of Qwen2.5-VL: gated feed-forward layers, norms without biases."""
    at, hidden = tower("visual"), config.integer("hidden_size")
    heads = config.integer("num_heads")
    merged = hidden * config.integer("spatial_merge_size") ** 2
    blocks = at.under("blocks.{}").copies(config.integer("depth"))
    layer = encoder_layer(
        blocks,
        hidden,
        config.integer("intermediate_size"),
        names=QKV,
        out="attn.proj",
        forward=("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
        norms=("norm1", "norm2"),
        norm_bias=False,
    )
    if kv_heads is not None:
        rows = kv_heads * (hidden // heads)
        layer[1:3] = [
            blocks.linear("attn.qkv", rows, hidden, Role.KV, heads=kv_heads, bias=True, leads=False) for _ in range(2)
        ]
    return [
        *_patches(at, config, hidden, bias=False),
        *layer,
        *at.norm("merger.ln_q", hidden),
        *_merger(at, merged, config.integer("out_hidden_size"), ("merger.mlp.0", "merger.mlp.2")),
        _table(hidden, heads),
    ]


@weighs("Qwen2_5_VLForConditionalGeneration")
def qwen2_5_vl(text: Text) -> list[Part]:
    """Return the parts of a Qwen2.5-VL."""
    return [*gated_tower(section(text)), *language_model(text, "Qwen2ForCausalLM")]


@weighs("Exaone4_5_ForConditionalGeneration")
def exaone4_5(text: Text) -> list[Part]:
    """Return the parts of an Exaone 4.5: Qwen2.5-VL's tower with grouped KV heads."""
    config = section(text)
    kv_heads = config.maybe_integer("num_key_value_heads") or config.integer("num_heads")
    return [*gated_tower(config, kv_heads=kv_heads), *language_model(text, "Exaone4ForCausalLM")]


# -- Qwen3-VL and 3.5 -------------------------------------------------------------------------------------------------


def deep_tower(config: Fields) -> list[Part]:
    """Return the tower of Qwen3-VL: learned positions, and a merger for each layer that feeds the decoder directly."""
    at, hidden = tower("visual"), config.integer("hidden_size")
    merged, out = hidden * config.integer("spatial_merge_size") ** 2, config.integer("out_hidden_size")
    blocks = at.under("blocks.{}").copies(config.integer("depth"))
    deep = config.maybe_integers("deepstack_visual_indexes") or []
    stack = at.under("deepstack_merger_list.{}").copies(len(deep))
    names = ("linear_fc1", "linear_fc2")
    return [
        *_patches(at, config, hidden, bias=True),
        at.tensor("pos_embed.weight", config.integer("num_position_embeddings"), hidden),
        *encoder_layer(
            blocks, hidden, config.integer("intermediate_size"), names=QKV, out="attn.proj",
            forward=("mlp.linear_fc1", "mlp.linear_fc2"), norms=("norm1", "norm2"),
        ),
        *at.norm("merger.norm", hidden, bias=True),
        *_merger(at.under("merger"), merged, out, names),
        *(stack.norm("norm", merged, bias=True) + _merger(stack, merged, out, names) if deep else []),
        _table(hidden, config.integer("num_heads")),
    ]  # fmt: skip


@weighs("Qwen3VLForConditionalGeneration")
def qwen3_vl(text: Text) -> list[Part]:
    """Return the parts of a dense Qwen3-VL."""
    return [*deep_tower(section(text)), *language_model(text, "Qwen3ForCausalLM")]


@weighs("Qwen3VLMoeForConditionalGeneration")
def qwen3_vl_moe(text: Text) -> list[Part]:
    """Return the parts of a Qwen3-VL mixture."""
    return [*deep_tower(section(text)), *language_model(text, "Qwen3MoeForCausalLM")]


@weighs("Qwen3_5ForConditionalGeneration")
def qwen3_5(text: Text) -> list[Part]:
    """Return the parts of a dense Qwen3.5."""
    return [*deep_tower(section(text)), *language_model(text, "Qwen3_5ForCausalLM")]


@weighs("Qwen3_5MoeForConditionalGeneration")
def qwen3_5_moe(text: Text) -> list[Part]:
    """Return the parts of a Qwen3.5 mixture."""
    return [*deep_tower(section(text)), *language_model(text, "Qwen3_5MoeForCausalLM")]


# -- GLM-4V -----------------------------------------------------------------------------------------------------------


def glm_tower(config: Fields) -> list[Part]:
    """Return the tower of GLM-4.1V and 4.5V: gated layers, patches merged by a convolution, a gated projector."""
    at, hidden, out = tower("visual"), config.integer("hidden_size"), config.integer("out_hidden_size")
    merge, bias = config.integer("spatial_merge_size"), config.flag("attention_bias")
    blocks = at.under("blocks.{}").copies(config.integer("depth"))
    positions = (config.integer("image_size") // config.integer("patch_size")) ** 2
    width = config.integer("intermediate_size")
    forward = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    return [
        *_patches(at, config, hidden, bias=True),
        *encoder_layer(
            blocks, hidden, out, bias=bias, names=QKV, out="attn.proj", forward=forward,
            norms=("norm1", "norm2"), norm_bias=False,
        ),
        at.linear("merger.proj", out, out),
        *at.norm("merger.post_projection_norm", out, bias=True),
        at.linear("merger.gate_proj", width, out),
        at.linear("merger.up_proj", width, out, leads=False),
        at.linear("merger.down_proj", out, width, Role.ROW),
        at.tensor("embeddings.position_embedding.weight", positions, hidden),
        position_ids(at.under("embeddings"), positions),
        *at.norms(hidden, "post_conv_layernorm", "post_layernorm"),
        at.tensor("downsample.weight", out, hidden, merge, merge),
        at.tensor("downsample.bias", out),
        _table(hidden, config.integer("num_heads")),
    ]  # fmt: skip


@weighs("Glm4vForConditionalGeneration")
def glm4v(text: Text) -> list[Part]:
    """Return the parts of a GLM-4.1V."""
    return [*glm_tower(section(text)), *language_model(text, "Glm4ForCausalLM")]


@weighs("Glm4vMoeForConditionalGeneration")
def glm4v_moe(text: Text) -> list[Part]:
    """Return the parts of a GLM-4.5V."""
    return [*glm_tower(section(text)), *language_model(text, "Glm4MoeForCausalLM")]


@weighs("GlmOcrForConditionalGeneration")
def glm_ocr(text: Text) -> list[Part]:
    """Return the parts of a GLM-OCR: biased layers with head norms, no learned positions."""
    config = section(text)
    at, hidden, out = tower("visual"), config.integer("hidden_size"), config.integer("out_hidden_size")
    merge, heads = config.integer("spatial_merge_size"), config.integer("num_heads")
    blocks = at.under("blocks.{}").copies(config.integer("depth"))
    wide = config.integer("intermediate_size")
    forward = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    return [
        *_patches(at, config, hidden, bias=True),
        *encoder_layer(
            blocks, hidden, config.integer("intermediate_size"), names=QKV, out="attn.proj", forward=forward,
            norms=("norm1", "norm2"), norm_bias=False,
        ),
        *blocks.norms(hidden // heads, "attn.q_norm", "attn.k_norm"),
        at.linear("merger.proj", out, out),
        *at.norm("merger.post_projection_norm", out, bias=True),
        at.linear("merger.gate_proj", wide, out),
        at.linear("merger.up_proj", wide, out, leads=False),
        at.linear("merger.down_proj", out, wide, Role.ROW),
        *at.norm("post_layernorm", hidden),
        at.tensor("downsample.weight", out, hidden, merge, merge),
        at.tensor("downsample.bias", out),
        _table(hidden, heads),
        *language_model(text, "Glm4ForCausalLM"),
    ]  # fmt: skip
