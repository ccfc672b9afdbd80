"""Ling and Ring from 2.5 on: groups of linear-attention layers that end in one of latent attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvplan.model.families import reads
from kvplan.model.families._attention import divided_hidden
from kvplan.model.families._latent import draft_count, latent_attention
from kvplan.model.families._multimodal import wraps
from kvplan.model.families._state import kernel_of, kimi_delta, state
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Layer, Lightning, Shape

reads("BailingMoeV3VLForConditionalGeneration", model_types=("bailing_moe_v3_vl",))(wraps("BailingMoeV3ForCausalLM"))


@reads("BailingMoeV2_5ForCausalLM")
def read_v2_5(config: Fields) -> Shape:
    """Return the shape of a 2.5: lightning attention, but for the last layer of each group of layer_group_size."""
    heads = config.integer("num_attention_heads")
    head_dim = config.maybe_integer("head_dim") or divided_hidden(config, heads)
    layer = state(Lightning(heads, head_dim))
    return _shape(config, layer, lambda index, _count, group: bool((index + 1) % group))


@reads("BailingMoeV3ForCausalLM", model_types=("bailing_hybrid",))
def read_v3(config: Fields) -> Shape:
    """Return the shape of a 3: Kimi delta attention, but for the last layer of each group and a short last group."""
    heads = config.integer("num_attention_heads")
    layer = kimi_delta(heads, config.integer("head_dim"), kernel_of(config, "short_conv_kernel_size"))
    return _shape(
        config, layer, lambda index, count, group: (index + 1) % group != 0 and index < count // group * group
    )


def _shape(config: Fields, linear: Layer, is_linear: Callable[[int, int, int], bool]) -> Shape:
    attention = latent_attention(config)
    count, group = config.layers(), config.integer("layer_group_size", high=MAX_LAYERS)
    layers: Sequence[Layer] = [linear if is_linear(i, count, group) else attention.layer() for i in range(count)]
    drafts = draft_count(config, "num_nextn_predict_layers")
    return attention.shape(layers, draft_layers=(attention.layer(),) * drafts)
