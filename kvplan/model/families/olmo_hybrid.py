"""OLMo Hybrid: gated delta nets with a full attention layer every fourth."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import grouped_query
from kvplan.model.families._state import FULL, LINEAR, block_types, kernel_of, state
from kvplan.model.fields import Fields
from kvplan.model.spec import GatedDeltaNet, Shape


@reads("OlmoHybridForCausalLM", model_types=("olmo_hybrid",))
def read(config: Fields) -> Shape:
    """Return the shape of an OLMo Hybrid; its class derives from the hidden size what the config leaves out."""
    heads = grouped_query(config, own_head_dim=False)
    linear = state(_delta(config, heads.heads))
    return heads.shape([linear if name == LINEAR else heads.full() for name in _types(config)])


def _delta(config: Fields, heads: int) -> GatedDeltaNet:
    k_heads = config.maybe_integer("linear_num_key_heads") or heads
    # Keys span three quarters of the hidden size, values twice as much as keys (transformers 5.20.2, OlmoHybridConfig).
    k_dim = config.maybe_integer("linear_key_head_dim") or int(0.75 * config.integer("hidden_size") / k_heads)
    if k_dim < 1:
        raise config.contradicts("linear_num_key_heads", "hidden_size", why="a head of no elements")
    return GatedDeltaNet(
        k_heads=k_heads,
        v_heads=config.maybe_integer("linear_num_value_heads") or heads,
        k_dim=k_dim,
        v_dim=config.maybe_integer("linear_value_head_dim") or 2 * k_dim,
        kernel=kernel_of(config, "linear_conv_kernel_dim"),
    )


def _types(config: Fields) -> list[str]:
    count = config.layers()
    types = block_types(config, count, LINEAR, FULL) or [FULL if i % 4 == 3 else LINEAR for i in range(count)]
    if FULL not in types:  # the class makes the last layer attend, so that at least one does
        types[-1] = FULL
    return types
