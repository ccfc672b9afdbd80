"""Zamba2: Mamba-2 layers, in some of which a shared attention block runs first; each of these has its own cache."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import GroupedQuery
from kvplan.model.families._state import LINEAR, block_types, expanded_width, kernel_of, state
from kvplan.model.fields import Fields
from kvplan.model.spec import Mamba2, Shape

_HYBRID = "hybrid"
# The class's own pattern, for a config without one: 54 layers, those that also attend by index (transformers 5.20.2).
_DEFAULT_COUNT, _DEFAULT_HYBRID = 54, frozenset({6, 12, 18, 24, 30, 36, 42, 47, 51})


@reads("Zamba2ForCausalLM", model_types=("zamba2",))
def read(config: Fields) -> Shape:
    """Return the shape of a Zamba2 checkpoint; attention sees the hidden state twice over, hence twice its width."""
    heads = _attention(config)
    mamba = state(_mamba(config))
    return heads.shape([heads.full() + mamba if name == _HYBRID else mamba for name in _types(config)])


def _types(config: Fields) -> list[str]:
    count = config.layers()
    types = block_types(config, count, LINEAR, _HYBRID, names=("layers_block_type", "layer_types"))
    if types is not None:
        return types
    if count != _DEFAULT_COUNT:
        why = f"the class's pattern has {_DEFAULT_COUNT} layers, not {count}"
        raise config.contradicts("layers_block_type", "num_hidden_layers", why=why)
    return [_HYBRID if index in _DEFAULT_HYBRID else LINEAR for index in range(count)]


def _attention(config: Fields) -> GroupedQuery:
    heads = config.integer("num_attention_heads")
    width = config.maybe_integer("attention_hidden_size") or 2 * config.integer("hidden_size")
    head_dim = config.maybe_integer("attention_head_dim") or width // heads
    if head_dim == 0 or head_dim * heads != width:
        why = f"{heads} heads of {head_dim} are not {width} channels"
        raise config.contradicts("num_attention_heads", "hidden_size", why=why)
    return GroupedQuery(heads, heads, head_dim, head_dim)


def _mamba(config: Fields) -> Mamba2:
    inner, heads = expanded_width(config, "mamba_expand"), config.integer("n_mamba_heads")
    if inner % heads:
        raise config.contradicts("n_mamba_heads", "mamba_expand", why=f"{heads} heads do not divide {inner} channels")
    head_dim = config.maybe_integer("mamba_headdim") or inner // heads
    if head_dim * heads != inner:  # vLLM sizes the page by one and the layer by the other, and stops
        why = f"{heads} heads of {head_dim} are not {inner} channels"
        raise config.contradicts("mamba_headdim", "n_mamba_heads", why=why)
    return Mamba2(
        inner=inner,
        groups=config.integer("mamba_ngroups"),
        heads=heads,
        head_dim=head_dim,
        state=config.integer("mamba_d_state"),
        kernel=kernel_of(config, "mamba_d_conv"),
    )
