"""Pure state space models: Mamba, Falcon-Mamba and Mamba-2. They keep no keys or values at all."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._state import expanded_width, kernel_of, state
from kvplan.model.fields import Fields
from kvplan.model.spec import Layer, Mamba1, Mamba2, Shape


@reads("MambaForCausalLM", model_types=("mamba",))
@reads("FalconMambaForCausalLM", model_types=("falcon_mamba",))
def read(config: Fields) -> Shape:
    """Return the shape of a Mamba checkpoint; a given intermediate_size goes before hidden_size x expand."""
    inner = config.maybe_integer("intermediate_size") or expanded_width(config, "expand")
    return _pure(config, state(Mamba1(inner, config.integer("state_size"), kernel_of(config, "conv_kernel"))))


@reads("Mamba2ForCausalLM", model_types=("mamba2",))
def read_mamba2(config: Fields) -> Shape:
    """Return the shape of a Mamba-2 checkpoint (Codestral Mamba)."""
    inner = expanded_width(config, "expand")
    heads, head_dim = config.integer("num_heads"), config.integer("head_dim")
    if heads * head_dim != inner:
        why = f"{heads} heads of {head_dim} are not {inner} channels"
        raise config.contradicts("num_heads", "head_dim", "expand", why=why)
    groups, size = config.integer("n_groups"), config.integer("state_size")
    return _pure(config, state(Mamba2(inner, groups, heads, head_dim, size, kernel_of(config, "conv_kernel"))))


def _pure(config: Fields, layer: Layer) -> Shape:
    return Shape((layer,) * config.layers(), heads=0, kv_heads=0, head_dim=0)
