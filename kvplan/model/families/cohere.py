"""Command R7B and its successors (Cohere 2): sliding layers that see the window and the token itself."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    FULL,
    GroupedQuery,
    by_types,
    full_every,
    grouped_query,
    sliding_types,
    sliding_window,
)
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Shape


@reads("Cohere2ForCausalLM", model_types=("cohere2",))
def read(config: Fields) -> Shape:
    """Return the shape of a Cohere 2: one full layer in four."""
    count = config.layers()
    types = sliding_types(config, count)
    if types is None:
        types = full_every(count, config.integer("sliding_window_pattern", default=4, low=0, high=MAX_LAYERS))
    return _shape(config, grouped_query(config), types)


@reads("Cohere2MoeForCausalLM", model_types=("cohere2_moe",))
def read_moe(config: Fields) -> Shape:
    """Return the shape of a Cohere 2 mixture of experts; the leading dense layers have a period of their own."""
    count = config.layers()
    types = sliding_types(config, count)
    if types is None:
        dense = config.maybe_integer("first_k_dense_replace", low=0, high=count) or 0
        first = config.integer("prefix_dense_sliding_window_pattern", default=1, low=0, high=MAX_LAYERS)
        rest = config.integer("sliding_window_pattern", default=4, low=0, high=MAX_LAYERS)
        types = full_every(dense, first) + full_every(count - dense, rest)
    return _shape(config, grouped_query(config), types)


@reads("CohereCompassForCausalLM", model_types=("cohere_compass_text",))
def read_compass(config: Fields) -> Shape:
    """Return the shape of a Compass language model; layers are full where no layer_types are given."""
    count = config.layers()
    types = sliding_types(config, count) or [FULL] * count
    heads = grouped_query(config)
    return heads.shape(by_types(heads, types, sliding_window(config)))


def _shape(config: Fields, heads: GroupedQuery, types: Sequence[str]) -> Shape:
    """Return the shape; a sliding layer sees `sliding_window` tokens before the token itself (vLLM, commandr.py)."""
    window = sliding_window(config)
    return heads.shape(by_types(heads, types, window + 1 if window is not None else None))
