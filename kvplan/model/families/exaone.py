"""EXAONE: plain at first; EXAONE 4 and MoE slide by a pattern, an integer period or a string of L and G."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    FULL,
    SLIDING,
    by_types,
    full_every,
    grouped_query,
    listed,
    sliding_types,
    sliding_window,
)
from kvplan.model.families._latent import draft_count
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Shape


@reads("ExaoneForCausalLM", model_types=("exaone",))
def read_first(config: Fields) -> Shape:
    """Return the shape of an EXAONE 3 or 3.5: full layers, counted by num_layers."""
    heads = grouped_query(config)
    return heads.shape([heads.full()] * config.layers("num_layers", "num_hidden_layers"))


@reads("Exaone4ForCausalLM", model_types=("exaone4",))
def read(config: Fields) -> Shape:
    """Return the shape of an EXAONE 4; a checkpoint without a sliding_window (1.2B) has full layers only."""
    heads = grouped_query(config)
    return heads.shape(by_types(heads, _types(config), sliding_window(config)))


@reads("ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM", model_types=("exaone_moe",))
def read_moe(config: Fields) -> Shape:
    """Return the shape of an EXAONE mixture of experts; `sliding_windows` gives each layer's own width."""
    heads = grouped_query(config)
    types = _types(config)
    if config.has("sliding_windows"):
        widths = listed(config, "sliding_windows", len(types))
    else:
        widths = [sliding_window(config) or 0] * len(types)
    layers = [
        heads.within(width or None) if t == SLIDING else heads.full() for t, width in zip(types, widths, strict=True)
    ]
    drafts = draft_count(config, "num_nextn_predict_layers")
    return heads.shape(layers, draft_layers=tuple(layers[:drafts]))  # each follows the layer of the same index


def _types(config: Fields) -> list[str]:
    count = config.layers()
    types = sliding_types(config, count)
    if types is not None:
        return types
    if sliding_window(config) is None:
        return [FULL] * count
    if isinstance(config.raw("sliding_window_pattern"), str):
        return _spelled(config, count)
    return full_every(count, config.maybe_integer("sliding_window_pattern", low=0, high=MAX_LAYERS) or 0)


def _spelled(config: Fields, count: int) -> list[str]:
    """Return the types that a string such as LLLG spells: L slides, G is full, it repeats, the last layer is full."""
    pattern = config.maybe_text("sliding_window_pattern") or ""
    if not pattern or set(pattern) - {"L", "G"}:
        raise config.bad("sliding_window_pattern", "an integer or a string of L and G", pattern)
    types = [SLIDING if pattern[i % len(pattern)] == "L" else FULL for i in range(count)]
    types[-1] = FULL
    return types
