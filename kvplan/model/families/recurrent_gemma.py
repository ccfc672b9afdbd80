"""RecurrentGemma (Griffin): gated linear recurrences, and local attention with a window in every third layer."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import grouped_query
from kvplan.model.families._state import kernel_of, state
from kvplan.model.fields import Fields
from kvplan.model.spec import LinearRecurrence, Shape

_RECURRENT, _ATTENTION = "recurrent", "attention"


@reads("RecurrentGemmaForCausalLM", model_types=("recurrent_gemma",))
def read(config: Fields) -> Shape:
    """Return the shape of a RecurrentGemma; its block types repeat, its state is kept in float32."""
    heads = grouped_query(config, own_head_dim=False)
    width = config.maybe_integer("lru_width") or config.integer("hidden_size")
    recurrent = state(LinearRecurrence(width, kernel_of(config, "conv1d_width")), "float32")
    name = "block_types" if config.has("block_types") else "_block_types"
    pattern = config.maybe_texts(name) or [_RECURRENT, _RECURRENT, _ATTENTION]
    for one in pattern:
        if one not in (_RECURRENT, _ATTENTION):
            raise config.bad(name, f"made of {_RECURRENT} and {_ATTENTION}", one)
    local = heads.window(config.integer("attention_window_size"))
    types = [pattern[index % len(pattern)] for index in range(config.layers())]
    return heads.shape([local if one == _ATTENTION else recurrent for one in types])
