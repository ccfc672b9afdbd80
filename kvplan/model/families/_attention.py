"""What the families share: grouped-query geometry, and the rules by which layers get a window or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Chunked, Full, Layer, Shape, Window
from kvplan.record import dataclass

SLIDING = "sliding_attention"
FULL = "full_attention"


@dataclass(frozen=True, slots=True)
class GroupedQuery:
    """Query heads, KV heads and the dimension of a head: multi-head, grouped-query and multi-query attention alike."""

    heads: int
    kv_heads: int
    head_dim: int
    head_dim_v: int

    def full(self) -> Layer:
        """Return a layer that keeps every token."""
        return (Full(self.kv_heads, self.head_dim, self.head_dim_v),)

    def window(self, tokens: int) -> Layer:
        """Return a layer that keeps the last `tokens` tokens."""
        return (Window(self.kv_heads, self.head_dim, self.head_dim_v, tokens),)

    def chunked(self, tokens: int) -> Layer:
        """Return a layer that keeps the current chunk of `tokens` tokens."""
        return (Chunked(self.kv_heads, self.head_dim, self.head_dim_v, tokens),)

    def within(self, tokens: int | None) -> Layer:
        """Return a layer that keeps the last `tokens` tokens, or every token where that is None."""
        return self.full() if tokens is None else self.window(tokens)

    def shape(self, layers: Sequence[Layer], **more: Any) -> Shape:
        """Return the shape of a model whose model-wide figures are these."""
        return Shape(tuple(layers), self.heads, self.kv_heads, self.head_dim, **more)


# -- heads ------------------------------------------------------------------------------------------------------------


def grouped_query(config: Fields, *, own_head_dim: bool = True) -> GroupedQuery:
    """Read the usual names. A missing num_key_value_heads means multi-head; a missing head_dim is hidden / heads.

    `own_head_dim` false: the model's class divides the hidden size by the heads whatever head_dim says.
    """
    heads = config.integer("num_attention_heads")
    kv_heads = config.maybe_integer("num_key_value_heads") or heads
    given = config.maybe_integer("head_dim", "attention_head_dim", low=0) if own_head_dim else None
    return geometry(config, heads, kv_heads, given or divided_hidden(config, heads))


def geometry(
    config: Fields, heads: int, kv_heads: int, head_dim: int, head_dim_v: int | None = None, *, name: str = ""
) -> GroupedQuery:
    """Return the checked record; raises InvalidConfig where the KV heads do not divide the query heads."""
    if heads % kv_heads:
        raise config.contradicts(
            "num_attention_heads",
            name or "num_key_value_heads",
            why=f"{heads} query heads cannot share {kv_heads} KV heads evenly",
        )
    return GroupedQuery(heads, kv_heads, head_dim, head_dim_v or head_dim)


def divided_hidden(config: Fields, heads: int) -> int:
    """Return hidden_size // heads, the dimension of a head where the config does not give it."""
    hidden = config.integer("hidden_size", "n_embd", "n_embed", "d_model")
    if hidden < heads:
        raise config.contradicts("hidden_size", "num_attention_heads", why=f"{hidden} channels for {heads} heads")
    return hidden // heads


def layer_overrides(config: Fields, layers: int) -> list[Fields | None] | None:
    """Return each layer's section of `per_layer_config`, None where it has none; None where the config has none.

    The keys are layer indices, which exporters pad with zeros.
    """
    overrides = config.maybe_section("per_layer_config")
    if overrides is None:
        return None
    by_index = {name.lstrip("0") or "0": name for name in overrides.names()}
    return [overrides.maybe_section(by_index[str(i)]) if str(i) in by_index else None for i in range(layers)]


# -- windows ----------------------------------------------------------------------------------------------------------


def sliding_window(config: Fields) -> int | None:
    """Return the width of the sliding window in tokens, None where there is none; some exporters write 0 for none."""
    return config.maybe_integer("sliding_window", low=0) or None


def layer_types(config: Fields, layers: int, *known: str) -> list[str] | None:
    """Return the checked `layer_types`, one name of `known` a layer, or None where the config has none."""
    types = config.maybe_texts("layer_types")
    if types is None:
        return None
    if len(types) != layers:
        raise config.contradicts(
            "layer_types", "num_hidden_layers", why=f"{len(types)} layer types for {layers} layers"
        )
    for name in types:
        if name not in known:
            raise config.bad("layer_types", f"made of {', '.join(known)}", name)
    return types


def sliding_types(config: Fields, layers: int) -> list[str] | None:
    """Return the checked `layer_types` of a model whose layers slide or see everything."""
    return layer_types(config, layers, SLIDING, FULL, "attention")


def full_every(layers: int, period: int) -> list[str]:
    """Return layer types of which every `period`-th is full and the others slide; 0: all are full."""
    return [SLIDING if period and (i + 1) % period else FULL for i in range(layers)]


def by_types(heads: GroupedQuery, types: Sequence[str], window: int | None) -> list[Layer]:
    """Return layers that slide where their type says so and the model has a window."""
    return [heads.within(window if name == SLIDING else None) for name in types]


def model_wide(heads: GroupedQuery, layers: int, types: Sequence[str] | None, window: int | None) -> list[Layer]:
    """Return layers of a class that knows no layer types: the window is every layer's or none's.

    Engines apply `sliding_window` to all layers where the config has no layer types or only sliding ones
    (vLLM, engine/arg_utils.py), and to none where the types are mixed.
    """
    everywhere = types is None or all(name == SLIDING for name in types)
    return [heads.within(window if everywhere else None)] * layers


# -- direction --------------------------------------------------------------------------------------------------------


def causal_or_encoder(config: Fields, shape: Shape) -> Shape:
    """Return `shape`, or an encoder without caches where the config says is_causal false (embedding models)."""
    return shape if config.flag("is_causal", default=True) else encoder(shape)


def encoder(shape: Shape) -> Shape:
    """Return `shape` as that of a bidirectional model, which keeps no KV cache."""
    return replace(shape, layers=((),) * len(shape.layers), kind="encoder")


def encoder_only(heads: GroupedQuery, layers: int) -> Shape:
    """Return the shape of a bidirectional model of so many layers."""
    return heads.shape([()] * layers, kind="encoder")


def listed(config: Fields, name: str, layers: int, *, low: int = 0) -> list[int]:
    """Return a list field with one integer a layer; raises InvalidConfig on another length."""
    values = config.maybe_integers(name, low=low, count=MAX_LAYERS)
    if values is None:
        raise config.lacks(name)
    if len(values) != layers:
        raise config.contradicts(name, "num_hidden_layers", why=f"{len(values)} entries for {layers} layers")
    return values
