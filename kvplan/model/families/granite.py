"""IBM Granite, dense and with experts, and their sliding-window forms (one full layer in four, the first one is)."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    FULL,
    SLIDING,
    GroupedQuery,
    by_types,
    grouped_query,
    model_wide,
    sliding_types,
    sliding_window,
)
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


@reads("GraniteForCausalLM", model_types=("granite", "granite4_vision_text"))
def read(config: Fields) -> Shape:
    """Return the shape of a dense Granite."""
    return _shape(config, grouped_query(config), sliding_types(config, config.layers()))


@reads("GraniteMoeForCausalLM", model_types=("granitemoe",))
@reads("GraniteMoeSharedForCausalLM", model_types=("granitemoeshared",))
def read_moe(config: Fields) -> Shape:
    """Return the shape of a Granite mixture of experts; its class divides the hidden size by the heads."""
    return _shape(config, grouped_query(config, own_head_dim=False), sliding_types(config, config.layers()))


@reads("GraniteSWAForCausalLM", model_types=("granite_swa",))
def read_swa(config: Fields) -> Shape:
    """Return the shape of a dense sliding-window Granite."""
    return _shape(config, grouped_query(config), _types(config))


@reads("GraniteMoeSWAForCausalLM", model_types=("granitemoe_swa",))
def read_moe_swa(config: Fields) -> Shape:
    """Return the shape of a sliding-window Granite mixture of experts."""
    return _shape(config, grouped_query(config, own_head_dim=False), _types(config))


def _types(config: Fields) -> list[str]:
    count = config.layers()
    return sliding_types(config, count) or [FULL if i % 4 == 0 else SLIDING for i in range(count)]


def _shape(config: Fields, heads: GroupedQuery, types: list[str] | None) -> Shape:
    """Return the shape; layers carry sink logits where the config says so, or where it has layer types at all."""
    window = sliding_window(config)
    layers = model_wide(heads, config.layers(), None, window) if types is None else by_types(heads, types, window)
    return heads.shape(layers, sinks=config.flag("attention_sinks", default=types is not None))
