"""Models of usual geometry whose layers slide where `layer_types` say so; each has its own rule where they are missing.

Most of them run through vLLM's Transformers backend, which takes the heads from the config, the window from
`sliding_window` and the layers that have it from `layer_types` (model_executor/models/transformers/base.py).
"""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    FULL,
    SLIDING,
    by_types,
    full_every,
    grouped_query,
    listed,
    model_wide,
    sliding_types,
    sliding_window,
)
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Shape


@reads("ArceeForCausalLM", model_types=("arcee",))
@reads("BitNetForCausalLM", model_types=("bitnet",))
@reads("FlexOlmoForCausalLM", model_types=("flex_olmo",))
@reads("GlmForCausalLM", model_types=("glm",))
@reads("HeliumForCausalLM", model_types=("helium",))
@reads("Jais2ForCausalLM", model_types=("jais2",))
@reads("MinistralForCausalLM", model_types=("ministral",))
@reads("NanbeigeForCausalLM", model_types=("nanbeige",))
@reads("OlmoForCausalLM", model_types=("olmo",))
@reads("Olmo2ForCausalLM", model_types=("olmo2",))
@reads("SeedOssForCausalLM", model_types=("seed_oss",))
@reads("SolarOpenForCausalLM", model_types=("solar_open",))
@reads("Starcoder2ForCausalLM", model_types=("starcoder2",))
@reads("Emu3ForCausalLM", model_types=("emu3_text_model",))
@reads("NanoChatForCausalLM", model_types=("nanochat",))
def read(config: Fields) -> Shape:
    """Return the shape of a model without a rule of its own: without layer_types the window is every layer's."""
    return _shape(config, sliding_types(config, config.layers()))


@reads("MellumForCausalLM", model_types=("mellum",))
@reads("FlintForCausalLM", model_types=("flint",))
def read_full(config: Fields) -> Shape:
    """Return the shape of a model whose layers are full where it gives no layer types."""
    count = config.layers()
    return _shape(config, sliding_types(config, count) or [FULL] * count)


@reads("Olmo3ForCausalLM", model_types=("olmo3",))
def read_olmo3(config: Fields) -> Shape:
    """Return the shape of an OLMo 3: one full layer in four."""
    count = config.layers()
    return _shape(config, sliding_types(config, count) or full_every(count, 4))


@reads("Kolibri1ForCausalLM", model_types=("kolibri1",))
def read_kolibri(config: Fields) -> Shape:
    """Return the shape of a Kolibri: one full layer in five."""
    count = config.layers()
    return _shape(config, sliding_types(config, count) or full_every(count, 5))


@reads("CwmForCausalLM", model_types=("cwm",))
def read_cwm(config: Fields) -> Shape:
    """Return the shape of a code world model: one full layer in four, the first one is."""
    count = config.layers()
    return _shape(config, sliding_types(config, count) or [SLIDING if i % 4 else FULL for i in range(count)])


@reads("AfmoeForCausalLM", model_types=("afmoe",))
def read_afmoe(config: Fields) -> Shape:
    """Return the shape of an AFMoE (Trinity): one full layer in global_attn_every_n_layers."""
    count = config.layers()
    types = sliding_types(config, count)
    if types is None:
        types = full_every(count, config.integer("global_attn_every_n_layers", high=MAX_LAYERS))
    return _shape(config, types)


@reads("Dots1ForCausalLM", model_types=("dots1",))
def read_dots1(config: Fields) -> Shape:
    """Return the shape of a dots.llm1: the layers from max_window_layers on slide."""
    count = config.layers()
    types = sliding_types(config, count)
    if types is None:
        first = config.maybe_integer("max_window_layers", low=0)
        types = [SLIDING if first is not None and i >= first else FULL for i in range(count)]
    return _shape(config, types)


@reads("SmolLM3ForCausalLM", model_types=("smollm3",))
def read_smollm3(config: Fields) -> Shape:
    """Return the shape of a SmolLM3: the layers without rotary positions may slide."""
    count = config.layers()
    types = sliding_types(config, count)
    if types is None:
        slides = config.flag("use_sliding_window") and sliding_window(config) is not None
        types = [SLIDING if slides and not rotary else FULL for rotary in _rotary(config, count)]
    return _shape(config, types)


@reads("MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration", model_types=("muse_glimmer_text",))
def read_muse_glimmer(config: Fields) -> Shape:
    """Return the shape of a Muse Glimmer's language model: one full layer in four, counted from the last."""
    count = config.layers()
    types = sliding_types(config, count) or [FULL if (count - 1 - i) % 4 == 0 else SLIDING for i in range(count)]
    return _shape(config, types)


@reads("HunYuanDenseV1ForCausalLM", model_types=("hunyuan_v1_dense", "hunyuan_vl_text"))
@reads("HunYuanMoEV1ForCausalLM", model_types=("hunyuan", "hunyuan_v1_moe"))
def read_hunyuan(config: Fields) -> Shape:
    """Return the shape of a Hunyuan; layers that share their cache across layers (use_cla) are not read."""
    if config.flag("use_cla"):
        raise config.bad("use_cla", "false (cross-layer attention is not read)", value=True)
    return _shape(config, sliding_types(config, config.layers()))


def _shape(config: Fields, types: list[str] | None) -> Shape:
    heads = grouped_query(config)
    window = sliding_window(config)
    layers = model_wide(heads, config.layers(), None, window) if types is None else by_types(heads, types, window)
    return heads.shape(layers, softcap=config.maybe_number("attn_logit_softcapping") is not None)


def _rotary(config: Fields, count: int) -> list[int]:
    if config.maybe_integers("no_rope_layers"):
        return listed(config, "no_rope_layers", count)
    period = config.integer("no_rope_layer_interval", high=MAX_LAYERS)
    return [int((i + 1) % period != 0) for i in range(count)]
