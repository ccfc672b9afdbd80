"""Falcon-H1: attention and a Mamba-2 mixer in parallel in every layer."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import grouped_query
from kvplan.model.families._state import mamba2_block, state
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


@reads("FalconH1ForCausalLM", model_types=("falcon_h1",))
def read(config: Fields) -> Shape:
    """Return the shape of a Falcon-H1 checkpoint; `mamba_d_ssm` is the width of its mixer, null: by mamba_expand."""
    heads = grouped_query(config)
    layer = heads.full() + state(mamba2_block(config, width_name="mamba_d_ssm"))
    return heads.shape([layer] * config.layers())
