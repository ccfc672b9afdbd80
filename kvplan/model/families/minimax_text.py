"""MiniMax-Text-01 and M1: lightning attention with a full attention layer every few."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import grouped_query, listed
from kvplan.model.families._multimodal import wraps
from kvplan.model.families._state import FULL, LINEAR, block_types, state
from kvplan.model.fields import Fields
from kvplan.model.spec import Lightning, Shape

reads("MiniMaxVL01ForConditionalGeneration", model_types=("minimax_vl_01",))(wraps("MiniMaxText01ForCausalLM"))


@reads("MiniMaxText01ForCausalLM", model_types=("minimax_text_01",))
@reads("MiniMaxM1ForCausalLM", model_types=("minimax_m1",))
@reads("MiniMaxForCausalLM", model_types=("minimax",))
def read(config: Fields) -> Shape:
    """Return the shape of a MiniMax hybrid: `attn_type_list` has 0 for a lightning and 1 for a full layer."""
    heads = grouped_query(config)
    linear = state(Lightning(heads.heads, heads.head_dim))
    return heads.shape([linear if name == LINEAR else heads.full() for name in _types(config)])


def _types(config: Fields) -> list[str]:
    count = config.layers()
    for name in ("attn_type_list", "decoder_attention_types"):
        if config.has(name):
            kinds = listed(config, name, count)
            if not set(kinds) <= {0, 1}:
                raise config.bad(name, "made of 0 and 1", max(kinds))
            return [FULL if kind else LINEAR for kind in kinds]
    types = block_types(config, count, LINEAR, FULL)
    if types is not None:
        return types
    if config.model_type == "minimax":  # its class alternates where nothing is given, starting with a full layer
        return [LINEAR if index % 2 else FULL for index in range(count)]
    raise config.lacks("attn_type_list")
