"""Gemma 3n and Gemma 4: the last layers read the cache of an earlier layer of their type and keep none themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    FULL,
    SLIDING,
    GroupedQuery,
    full_every,
    geometry,
    grouped_query,
    layer_overrides,
    sliding_types,
    sliding_window,
)
from kvplan.model.families._multimodal import language_model
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Layer, Shape, Shared

_GLOBAL_HEAD_DIM = 512  # transformers 5.20.2, Gemma4TextConfig: global_head_dim where the config has none


@reads("Gemma3nForCausalLM", model_types=("gemma3n_text",))
def read_gemma3n(config: Fields) -> Shape:
    """Return the shape of a Gemma 3n's language model: one full layer in five, the last ones share."""
    heads = grouped_query(config)
    count = config.layers()
    types = sliding_types(config, count) or full_every(count, 5)
    window = sliding_window(config)
    layers = [heads.within(window if name == SLIDING else None) for name in types]
    return heads.shape(_shared(config, layers, types))


@reads("Gemma4ForCausalLM", model_types=("gemma4_text", "gemma4_unified_text"))
def read_gemma4(config: Fields) -> Shape:
    """Return the shape of a Gemma 4's language model: full layers have heads of their own number and dimension."""
    heads = grouped_query(config)
    count = config.layers()
    types = list(sliding_types(config, count) or full_every(count, 6))
    types[-1] = FULL  # the class forces the last layer
    window = sliding_window(config)
    if window is not None and config.maybe_text("use_bidirectional_attention") == "all":
        window = window // 2 + 1  # transformers counts half the window on either side
    layers = [
        one.within(window if name == SLIDING else None)
        for name, one in zip(types, _heads(config, heads, types), strict=True)
    ]
    capped = config.maybe_number("attn_logit_softcapping") is not None
    return heads.shape(_shared(config, layers, types), softcap=capped)


@reads("Gemma4ForConditionalGeneration", model_types=("gemma4",))
@reads("Gemma4UnifiedForConditionalGeneration", model_types=("gemma4_unified",))
def read_gemma4_multimodal(config: Fields) -> Shape:
    """Return the shape of a Gemma 4 with vision: image tokens see each other where the text section says so."""
    shape = language_model(config, "Gemma4ForCausalLM")
    return replace(shape, prefix_lm=config.maybe_text("use_bidirectional_attention") == "vision")


@reads("DiffusionGemmaForBlockDiffusion", model_types=("diffusion_gemma",))
def read_diffusion(config: Fields) -> Shape:
    """Return the shape of a diffusion Gemma, whose denoising model is a Gemma 4's."""
    return read_gemma4_multimodal(config)


def _heads(config: Fields, heads: GroupedQuery, types: Sequence[str]) -> list[GroupedQuery]:
    """Return the heads of each layer: by per_layer_config, or by the global_* fields for the full layers."""
    overrides = layer_overrides(config, len(types))
    if overrides is not None:
        return [_override(layer, heads) for layer in overrides]
    kv_heads = heads.kv_heads
    if config.flag("attention_k_eq_v"):
        kv_heads = config.maybe_integer("num_global_key_value_heads") or kv_heads
    full = geometry(
        config,
        heads.heads,
        kv_heads,
        config.integer("global_head_dim", default=_GLOBAL_HEAD_DIM),
        name="num_global_key_value_heads",
    )
    return [full if name == FULL else heads for name in types]


def _override(layer: Fields | None, heads: GroupedQuery) -> GroupedQuery:
    if layer is None:
        return heads
    kv_heads = layer.maybe_integer("num_key_value_heads") or heads.kv_heads
    return geometry(layer, heads.heads, kv_heads, layer.maybe_integer("head_dim") or heads.head_dim)


def _shared(config: Fields, layers: Sequence[Layer], types: Sequence[str]) -> list[Layer]:
    """Return the layers; the last num_kv_shared_layers refer to the last earlier one of their type."""
    count = config.maybe_integer("num_kv_shared_layers", low=0, high=MAX_LAYERS) or 0
    first = len(layers) - count
    if count and first <= 0:
        raise config.contradicts(
            "num_kv_shared_layers", "num_hidden_layers", why=f"{count} of {len(layers)} layers share a cache"
        )
    result = list(layers)
    for i in range(first, len(layers)):
        source = max((j for j in range(first) if types[j] == types[i]), default=None)
        if source is None:
            raise config.contradicts(
                "num_kv_shared_layers", "layer_types", why=f"layer {i} has no earlier layer of its type to share with"
            )
        result[i] = (Shared(source),)
    return result
