"""Kimi: K2's wrappers around DeepSeek-V3, and the hybrids of Kimi delta attention and latent attention."""

from __future__ import annotations

from dataclasses import replace

from kvplan.model.families import Reader, reads
from kvplan.model.families._latent import draft_count, latent_attention
from kvplan.model.families._multimodal import language_model
from kvplan.model.families._state import kernel_of, kimi_delta
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Cache, KimiDelta, Layer, Shape, State


def _without_drafts(architecture: str) -> Reader:
    """Return the reader of a wrapper whose class drops the prediction layers of the model inside."""

    def read(config: Fields) -> Shape:
        return replace(language_model(config, architecture), draft_layers=())

    return read


reads("KimiVLForConditionalGeneration", model_types=("kimi_vl",))(_without_drafts("DeepseekV2ForCausalLM"))
reads("KimiK25ForConditionalGeneration", model_types=("kimi_k25",))(_without_drafts("DeepseekV2ForCausalLM"))


@reads("KimiLinearForCausalLM", model_types=("kimi_linear",))
def read(config: Fields) -> Shape:
    """Return the shape of a Kimi-Linear checkpoint; `kda_layers` counts from 1, the other layers keep a latent."""
    attention = latent_attention(config)
    count = config.layers()
    section = config.maybe_section("linear_attn_config")
    if section is None:
        return attention.shape([attention.layer()] * count)
    kda = set(section.maybe_integers("kda_layers", low=1, high=MAX_LAYERS) or ())
    full = set(section.maybe_integers("full_attn_layers", low=1, high=MAX_LAYERS) or ())
    if kda & full or any(index > count for index in kda | full):
        why = f"a layer of both kinds, or one beyond the {count} layers"
        raise section.contradicts("kda_layers", "full_attn_layers", why=why)
    delta = _delta(section) if kda else attention.layer()
    return attention.shape([delta if i + 1 in kda else attention.layer() for i in range(count)])


@reads("KimiK3ForConditionalGeneration", model_types=("kimi_k3",))
def read_k3(config: Fields) -> Shape:
    """Return the shape of Kimi-K3: Kimi-Linear inside, gates with a lower bound, and latent prediction layers."""
    shape = language_model(config, "KimiLinearForCausalLM")
    section = config.maybe_section("linear_attn_config")
    bounded = section is not None and section.maybe_number("gate_lower_bound") is not None
    layers = tuple(tuple(_bounded(cache) if bounded else cache for cache in layer) for layer in shape.layers)
    latent = latent_attention(config).layer()
    return replace(shape, layers=layers, draft_layers=(latent,) * draft_count(config, "num_nextn_predict_layers"))


def _bounded(cache: Cache) -> Cache:
    if isinstance(cache, State) and isinstance(cache.mixer, KimiDelta):
        return replace(cache, mixer=replace(cache.mixer, bounded=True))
    return cache


def _delta(section: Fields) -> Layer:
    return kimi_delta(
        section.integer("num_heads"), section.integer("head_dim"), kernel_of(section, "short_conv_kernel_size")
    )
