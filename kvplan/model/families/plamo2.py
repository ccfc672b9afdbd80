"""PLaMo 2: Mamba-2 layers without groups, and a full attention layer in the middle of each `mamba_step` layers."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import geometry
from kvplan.model.families._state import kernel_of, state
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Mamba2, Shape


@reads("Plamo2ForCausalLM", model_types=("plamo2",))
def read(config: Fields) -> Shape:
    """Return the shape of a PLaMo 2 checkpoint (vLLM 0.25.0, models/plamo2.py)."""
    head_dim = config.integer("hidden_size_per_head")
    heads = geometry(config, config.integer("num_attention_heads"), config.integer("num_key_value_heads"), head_dim)
    mamba_heads = config.integer("mamba_num_heads")
    mamba = state(
        Mamba2(
            inner=mamba_heads * head_dim,
            groups=0,
            heads=mamba_heads,
            head_dim=head_dim,
            state=config.integer("mamba_d_state"),
            kernel=kernel_of(config, "mamba_d_conv"),
        )
    )
    count, step = config.layers(), config.integer("mamba_step", low=2, high=MAX_LAYERS)

    def attends(index: int) -> bool:
        if count <= step // 2:
            return index == count - 1
        return index % step == step // 2

    return heads.shape([heads.full() if attends(index) else mamba for index in range(count)])
