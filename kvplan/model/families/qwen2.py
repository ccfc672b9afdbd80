"""Qwen 2 and 2.5, and the models built from their layers: the window counts only where use_sliding_window says so."""

from __future__ import annotations

from dataclasses import replace

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    FULL,
    SLIDING,
    GroupedQuery,
    by_types,
    causal_or_encoder,
    grouped_query,
    model_wide,
    sliding_types,
    sliding_window,
)
from kvplan.model.families._latent import draft_count
from kvplan.model.fields import Fields
from kvplan.model.spec import Layer, Shape


@reads("Qwen2ForCausalLM", "Qwen2Model", model_types=("qwen2", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text"))
@reads("Qwen2ForRewardModel", "Qwen2ForProcessRewardModel")
def read(config: Fields) -> Shape:
    """Return the shape of a Qwen2; its class divides the hidden size by the heads whatever head_dim says."""
    heads = grouped_query(config, own_head_dim=False)
    return causal_or_encoder(config, _windowed_shape(config, heads))


@reads("MiMoForCausalLM", model_types=("mimo",))
def read_mimo(config: Fields) -> Shape:
    """Return the shape of a MiMo: a Qwen2 with prediction layers."""
    shape = read(config)
    return replace(shape, draft_layers=shape.layers[:1] * draft_count(config, "num_nextn_predict_layers"))


@reads("Qwen3ForCausalLM", "Qwen3Model", model_types=("qwen3", "qwen3_vl_text", "moss_qwen3"))
def read_qwen3(config: Fields) -> Shape:
    """Return the shape of a Qwen3 (or the language model of a Qwen3-VL), which has a head_dim of its own."""
    heads = grouped_query(config)
    return causal_or_encoder(config, _windowed_shape(config, heads))


@reads("VoyageQwen3BidirectionalEmbedModel")
def read_bidirectional(config: Fields) -> Shape:
    """Return the shape of a Qwen3 that attends in both directions."""
    heads = grouped_query(config)
    return heads.shape([()] * config.layers(), kind="encoder")


@reads("Qwen2MoeForCausalLM", model_types=("qwen2_moe",))
def read_qwen2_moe(config: Fields) -> Shape:
    """Return the shape of a Qwen2 mixture of experts, whose class knows no layer types.

    Derived layer types put a window on every other layer below max_window_layers; mixed ones make every layer full.
    """
    heads = grouped_query(config, own_head_dim=False)
    count = config.layers()
    types = sliding_types(config, count)
    return heads.shape(model_wide(heads, count, types or [FULL], optional_window(config)))


@reads("Qwen3MoeForCausalLM", model_types=("qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"))
def read_qwen3_moe(config: Fields) -> Shape:
    """Return the shape of a Qwen3 mixture of experts, whose class knows no layer types."""
    heads = grouped_query(config)
    count = config.layers()
    plain = config.model_type in (
        "qwen3_vl_moe_text",
        "qwen3_omni_moe_text",
    )  # their classes know no use_sliding_window
    window = sliding_window(config) if plain else optional_window(config)
    return heads.shape(model_wide(heads, count, sliding_types(config, count), window))


def optional_window(config: Fields) -> int | None:
    """Return the sliding window, None unless use_sliding_window is true (the config classes of Qwen drop it)."""
    return sliding_window(config) if config.flag("use_sliding_window") else None


def _windowed_shape(config: Fields, heads: GroupedQuery) -> Shape:
    """Return the shape; vLLM's class refuses mixed layers where max_window_layers says that there are some."""
    layers = windowed_above(config, heads)
    first = config.maybe_integer("max_window_layers", low=0)
    mixed = len(set(layers)) > 1 and first != len(layers)
    return heads.shape(layers, rejected=f"a window from layer {first} of {len(layers)} on" if mixed else "")


def windowed_above(config: Fields, heads: GroupedQuery) -> list[Layer]:
    """Return layers of which those from max_window_layers on have the window, or as `layer_types` say."""
    count = config.layers()
    window = optional_window(config)
    types = sliding_types(config, count)
    if types is None:
        first = config.integer("max_window_layers", low=0) if window is not None else count
        types = [SLIDING if i >= first else FULL for i in range(count)]
    return by_types(heads, types, window)
