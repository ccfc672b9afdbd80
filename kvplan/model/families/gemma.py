"""Gemma 2 and 3, VaultGemma and Rnj-1: layers that slide and layers that see everything, in a fixed period."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    FULL,
    by_types,
    encoder,
    full_every,
    grouped_query,
    layer_types,
    sliding_types,
    sliding_window,
)
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape

_GEMMA3_PERIOD = 6  # transformers 5.20.2, Gemma3TextConfig: sliding_window_pattern where the config has none


@reads("Gemma2ForCausalLM", "Gemma2Model", model_types=("gemma2",))
@reads("VaultGemmaForCausalLM", model_types=("vaultgemma",))
def read_gemma2(config: Fields) -> Shape:
    """Return the shape of a Gemma 2: every other layer slides, the first one does; attention logits are capped."""
    heads = grouped_query(config)
    count = config.layers()
    types = sliding_types(config, count) or full_every(count, 2)
    capped = config.maybe_number("attn_logit_softcapping") is not None
    return heads.shape(by_types(heads, types, sliding_window(config)), softcap=capped)


@reads("Gemma3ForCausalLM", model_types=("gemma3_text",))
def read_gemma3(config: Fields) -> Shape:
    """Return the shape of a Gemma 3's language model: one full layer in six, or as sliding_window_pattern says."""
    heads = grouped_query(config)
    count = config.layers()
    types = sliding_types(config, count)
    if types is None:
        types = full_every(count, config.integer("sliding_window_pattern", default=_GEMMA3_PERIOD, low=0))
    window = sliding_window(config)
    if window is not None and config.flag("use_bidirectional_attention"):
        window = window // 2 + 1  # transformers counts half the window on either side
    return heads.shape(by_types(heads, types, window))


@reads("Gemma3TextModel")
def read_gemma3_embedding(config: Fields) -> Shape:
    """Return the shape of a Gemma 3 used for embeddings, which may attend in both directions."""
    shape = read_gemma3(config)
    return encoder(shape) if config.flag("use_bidirectional_attention") else shape


@reads("Rnj1ForCausalLM", model_types=("rnj1",))
def read_rnj1(config: Fields) -> Shape:
    """Return the shape of an Rnj-1: layers called chunked keep a sliding window, the others everything."""
    heads = grouped_query(config)
    types = layer_types(config, config.layers(), "chunked_attention", FULL)
    if types is None:
        raise config.lacks("layer_types")
    window = sliding_window(config)
    return heads.shape([heads.within(window if name == "chunked_attention" else None) for name in types])
