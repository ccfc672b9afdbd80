"""RWKV from version 5 on: a matrix-valued state a head, and the last token's vector for each of the two mixes."""

from __future__ import annotations

from kvplan.errors import UnknownArchitecture
from kvplan.model.families import reads
from kvplan.model.families._state import state
from kvplan.model.fields import Fields
from kvplan.model.spec import Rwkv, Shape


@reads("RwkvForCausalLM", model_types=("rwkv",))
@reads("Rwkv5ForCausalLM", model_types=("rwkv5",))
@reads("Rwkv6ForCausalLM", model_types=("rwkv6",))
def read(config: Fields) -> Shape:
    """Return the shape of an RWKV checkpoint; `head_size` divides the width of its attention."""
    if config.model_type == "rwkv":
        raise UnknownArchitecture("kvplan does not read RWKV-4, whose state has no heads", "versions 5 and 6 are read")
    hidden = config.integer("hidden_size")
    width = config.maybe_integer("attention_hidden_size") or hidden
    head_dim = config.integer("head_size")
    if width % head_dim:
        raise config.contradicts(
            "attention_hidden_size", "head_size", why=f"{width} channels are no whole heads of {head_dim}"
        )
    layer = state(Rwkv(hidden, width // head_dim, head_dim), "float32")
    return Shape((layer,) * config.layers(), heads=0, kv_heads=0, head_dim=0)
