"""Llama 4: three layers in four see only their own chunk of tokens; the layers without rotary positions see all."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import grouped_query, layer_types, listed
from kvplan.model.families._multimodal import wraps
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Shape

reads("Llama4ForConditionalGeneration", model_types=("llama4",))(wraps("Llama4ForCausalLM"))


@reads("Llama4ForCausalLM", model_types=("llama4_text",))
def read(config: Fields) -> Shape:
    """Return the shape of a Llama 4's language model; no_rope_layers holds 1 for a layer that has rotary positions."""
    heads = grouped_query(config)
    count = config.layers()
    layer_types(config, count, "chunked_attention", "full_attention")
    chunk = config.maybe_integer("attention_chunk_size", low=0)
    rotary = _rotary(config, count)
    return heads.shape([heads.chunked(chunk) if chunk and has_rope else heads.full() for has_rope in rotary])


def _rotary(config: Fields, count: int) -> list[int]:
    if config.maybe_integers("no_rope_layers"):  # an empty list stands for none
        return listed(config, "no_rope_layers", count)
    period = config.integer("no_rope_layer_interval", high=MAX_LAYERS)
    return [int((i + 1) % period != 0) for i in range(count)]
