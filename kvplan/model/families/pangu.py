"""openPangu without latent attention; a window by layer where interleaved_sliding_window gives one."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    GroupedQuery,
    causal_or_encoder,
    grouped_query,
    model_wide,
    sliding_types,
    sliding_window,
)
from kvplan.model.families._multimodal import wraps
from kvplan.model.fields import Fields
from kvplan.model.spec import Layer, Shape

reads("OpenPanguVLForConditionalGeneration", model_types=("openpangu_vl",))(wraps("PanguEmbeddedForCausalLM"))


@reads("PanguEmbeddedForCausalLM", model_types=("PanguEmbedded",))
@reads("PanguProMoEV2ForCausalLM", model_types=("PanguProMoE",))
def read(config: Fields) -> Shape:
    """Return the shape of a Pangu; latent attention and learned sink tokens, which change the cache, are not read."""
    for name in ("kv_lora_rank", "param_sink_number"):
        if config.has(name) and config.integer(name, low=0):
            raise config.bad(name, "absent (this form of the model is not read)", config.raw(name))
    heads = grouped_query(config)
    return causal_or_encoder(config, heads.shape(_layers(config, heads)))


def _layers(config: Fields, heads: GroupedQuery) -> list[Layer]:
    count = config.layers()
    if not isinstance(config.raw("interleaved_sliding_window"), list):
        own = config.maybe_integer("interleaved_sliding_window", low=0) or None
        if own is not None:
            return [heads.window(own)] * count
        return model_wide(heads, count, sliding_types(config, count), sliding_window(config))
    widths = config.maybe_integers("interleaved_sliding_window") or [0]
    return [heads.within(widths[i % len(widths)] or None) for i in range(count)]
