"""Gemma 4: full layers with larger heads, experts or embeddings by layer; eyes and ears, whole on every rank."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.spec import Full, Window
from kvplan.model.weights.blocks import attention, experts, gated, kv_scales, router
from kvplan.model.weights.dense import FOUR_NORMS, TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import MODEL, Part, Role, Stage
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import encoder_layer, language_model, section, tower, unquantised

_QKV = ("self_attn.q_proj.linear", "self_attn.k_proj.linear", "self_attn.v_proj.linear")
_FORWARD = ("mlp.gate_proj.linear", "mlp.up_proj.linear", "mlp.down_proj.linear")
_MEL_BANDS = 128  # of the feature extractor; no config has it


@weighs("Gemma4ForCausalLM")
def gemma4(text: Text) -> list[Part]:
    """Return the parts of a Gemma 4: full layers with larger heads, optional experts and embeddings by layer.

    The last num_kv_shared_layers have no keys and values, and a feed-forward layer of twice the width where
    use_double_wide_mlp says so.
    """
    config, hidden = text.config, text.hidden
    count = len(text.layers)
    first_shared = count - (config.maybe_integer("num_kv_shared_layers", low=0) or 0)
    at = text.at()
    parts = [
        *ends(text, tied=True),
        *at.norms(hidden, *FOUR_NORMS),
        at.table("layer_scalar", dtype=MODEL),
        Scope().table("model.normalizer", dtype=MODEL),
    ]
    for kind in ("sliding_attention", "full_attention"):
        layers = [i for i in text.layers if _kind(text, i) == kind]
        parts += _attention(text, layers, first_shared)
        head_dim = _geometry(text, layers)[2] if layers else 0
        parts += rope_table(config, head_dim, layer_type=kind) if layers else []
    wide = range(first_shared, count) if text.flag("use_double_wide_mlp") else range(0)
    parts += gated(text.at(layers=[i for i in text.layers if i not in wide]), hidden, text.intermediate)
    parts += gated(text.at(layers=wide), hidden, 2 * text.intermediate)
    if config.maybe_integer("num_experts", low=0):
        parts += _experts(text)
    by_layer = config.maybe_integer("hidden_size_per_layer_input", low=0)
    if by_layer:
        parts += _embeddings_by_layer(text, by_layer)
    return parts


def _kind(text: Text, layer: int) -> str:
    types = text.config.maybe_texts("layer_types")
    if types is not None and layer < len(types):
        return types[layer]
    return "full_attention" if isinstance(text.shape.layers[layer][0], Full) else "sliding_attention"


def _geometry(text: Text, layers: list[int]) -> tuple[int, int, int]:
    """Return query heads, KV heads and head dimension of these layers, by the first that keeps its own cache."""
    for layer in layers:
        cache = text.shape.layers[layer][0]
        if isinstance(cache, Full | Window):
            return text.shape.heads, cache.kv_heads, cache.head_dim
    return text.shape.heads, text.shape.kv_heads, text.shape.head_dim


def _attention(text: Text, layers: list[int], first_shared: int) -> list[Part]:
    if not layers:
        return []
    heads, kv_heads, dim = _geometry(text, layers)
    every = text.at(layers=layers)
    own = text.at(layers=[i for i in layers if i < first_shared])
    rest = text.at(layers=[i for i in layers if i >= first_shared])
    return [
        *every.norm("self_attn.q_norm", dim),
        *attention(own, text, heads=(heads, kv_heads), dims=(dim, dim)),
        *own.norm("self_attn.k_norm", dim),
        rest.linear("self_attn.q_proj", heads * dim, text.hidden),
        rest.linear("self_attn.o_proj", text.hidden, heads * dim, Role.ROW),
        kv_scales(rest),
    ]


def _experts(text: Text) -> list[Part]:
    at, hidden, config = text.at(), text.hidden, text.config
    count = config.integer("num_experts")
    return [
        at.tensor("router.scale", hidden),
        at.tensor("router.per_expert_scale", count),
        *router(at, count, hidden, name="router.proj"),
        at.table("router.root_size", dtype=MODEL),
        *experts(at, count, hidden, config.integer("moe_intermediate_size"), within="experts.{}"),
        *at.norms(
            hidden, "post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"
        ),
    ]


def _embeddings_by_layer(text: Text, width: int) -> list[Part]:
    first, at, hidden = Scope(stage=Stage.FIRST), text.at(), text.hidden
    total = width * len(text.layers)
    rows = text.config.maybe_integer("vocab_size_per_layer_input") or text.vocabulary
    return [
        first.linear("model.embed_tokens_per_layer", rows, total, Role.VOCABULARY, kind="embedding"),
        first.linear("model.per_layer_model_projection", total, hidden),
        *first.norm("model.per_layer_projection_norm", width),
        at.tensor("per_layer_input_gate.weight", width, hidden),
        at.tensor("per_layer_projection.weight", hidden, width),
        *at.norm("post_per_layer_input_norm", hidden),
        Scope().table("model.embed_scales", 3, dtype=MODEL),
    ]


# -- with eyes and ears -----------------------------------------------------------------------------------------------


@weighs("Gemma4ForConditionalGeneration")
def multimodal(text: Text) -> list[Part]:
    """Return the parts of a multimodal Gemma 4."""
    parts = [*_vision(section(text), text.hidden), *language_model(text, "Gemma4ForCausalLM")]
    heard = text.config.root.maybe_section("audio_config")
    return parts if heard is None else [*parts, *_audio(section(text, "audio_config"), text.hidden)]


def _vision(config: Fields, out: int) -> list[Part]:
    at, hidden = tower("vision_tower"), config.integer("hidden_size")
    dim, patch = config.integer("head_dim"), config.integer("patch_size")
    layers = at.under("encoder.layers.{}").copies(config.integer("num_hidden_layers"))
    standard = [at.table(f"std_{name}", hidden, dtype=MODEL) for name in ("bias", "scale")]
    parts: list[Part] = [
        at.tensor("patch_embedder.position_embedding_table", 2, config.integer("position_embedding_size"), hidden),
        at.tensor("patch_embedder.input_proj.weight", hidden, 3 * patch * patch),
        *encoder_layer(
            layers, hidden, config.integer("intermediate_size"), bias=False, names=_QKV, out="self_attn.o_proj.linear",
            forward=_FORWARD, norms=TWO_NORMS, norm_bias=False, split=False,
        ),
        *layers.norms(dim, "self_attn.q_norm", "self_attn.k_norm"),
        *layers.norms(hidden, "pre_feedforward_layernorm", "post_feedforward_layernorm"),
        *(standard if config.flag("standardize") else []),
        *(at.table(f"rotary_emb.{name}", dim // 4) for name in ("inv_freq", "original_inv_freq")),
        tower("embed_vision").linear("embedding_projection", out, hidden, Role.TOWER),
    ]  # fmt: skip
    if config.flag("use_clipped_linears"):
        parts += [layers.table(f"{name}.bounds", 4, dtype=MODEL) for name in (*_QKV, "self_attn.o_proj", *_FORWARD)]
    return unquantised(parts)


def _audio(config: Fields, out: int) -> list[Part]:
    """Return the conformer: two half feed-forward layers around attention and a convolution."""
    at, hidden = tower("audio_tower"), config.integer("hidden_size")
    layers = at.under("layers.{}").copies(config.integer("num_hidden_layers"))
    channels = config.maybe_integers("subsampling_conv_channels", exactly=2) or [128, 32]
    wide, made = 4 * hidden, config.integer("output_proj_dims")
    clipped = (
        *((f"feed_forward{half}.ffw_layer_1", wide, hidden) for half in (1, 2)),
        *((f"feed_forward{half}.ffw_layer_2", hidden, wide) for half in (1, 2)),
        *((f"self_attn.{name}", hidden, hidden) for name in ("q_proj", "k_proj", "v_proj", "post")),
        ("lconv1d.linear_start", 2 * hidden, hidden),
        ("lconv1d.linear_end", hidden, hidden),
    )
    bounds = [layers.table(f"{name}.bounds", 4, dtype=MODEL) for name, _, _ in clipped]
    first = at.under("subsample_conv_projection")
    bands = _MEL_BANDS // 4 * channels[-1]
    return unquantised([
        first.tensor("layer0.conv.weight", channels[0], 1, 3, 3),
        *first.norm("layer0.norm", channels[0]),
        first.tensor("layer1.conv.weight", channels[-1], channels[0], 3, 3),
        *first.norm("layer1.norm", channels[-1]),
        first.linear("input_proj_linear", hidden, bands, Role.TOWER),
        *(layers.linear(f"{name}.linear", rows, columns, Role.TOWER) for name, rows, columns in clipped),
        layers.linear("self_attn.relative_k_proj", hidden, hidden, Role.TOWER),
        layers.tensor("self_attn.per_dim_scale", hidden // config.integer("num_attention_heads")),
        layers.tensor("lconv1d.depthwise_conv1d.weight", hidden, 1, config.integer("conv_kernel_size")),
        *layers.norms(
            hidden,
            *(f"feed_forward{half}.{which}_layer_norm" for half in (1, 2) for which in ("pre", "post")),
            "lconv1d.pre_layer_norm", "lconv1d.conv_norm", "norm_pre_attn", "norm_post_attn", "norm_out",
        ),
        at.linear("output_proj", made, hidden, Role.TOWER, bias=True),
        tower("embed_audio").linear("embedding_projection", out, made, Role.TOWER),
        *(bounds if config.flag("use_clipped_linears") else []),
        layers.table("self_attn.softcap", dtype=MODEL),
        at.table("rel_pos_enc.inv_timescales", 1, 1, hidden // 2, dtype=MODEL),
    ])  # fmt: skip


@weighs("DiffusionGemmaForBlockDiffusion")
def diffusion(text: Text) -> list[Part]:
    """Return the parts of a DiffusionGemma: a Gemma 4 that also reads its own last guess."""
    at, hidden, width = tower("self_conditioning"), text.hidden, text.intermediate
    whole = Role.REPLICATED
    return unquantised([
        *_vision(section(text), hidden),
        *at.norm("pre_norm", hidden),
        at.linear("gate_proj", width, hidden, whole),
        at.linear("up_proj", width, hidden, whole),
        at.linear("down_proj", hidden, width, whole),
    ]) + language_model(text, "Gemma4ForCausalLM")  # fmt: skip
