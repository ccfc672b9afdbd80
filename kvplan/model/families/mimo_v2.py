"""MiMo-V2: sliding layers have heads of another number and dimension, and keys are wider than values."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import SLIDING, GroupedQuery, geometry, listed, sliding_types
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Shape

_DRAFTS = 1  # vLLM builds one prediction layer, a sliding one (mimo_v2_mtp.py)
_FULL_PERIOD = 6  # transformers 5.20.2, MiMoV2FlashConfig: full layers are the first and every sixth


@reads("MiMoV2FlashForCausalLM", model_types=("mimo_v2_flash",))
@reads("MiMoV2ForCausalLM", model_types=("mimo_v2",))
@reads("MiMoV2OmniForCausalLM")
def read(config: Fields) -> Shape:
    """Return the shape of a MiMo-V2; in hybrid_layer_pattern 1 is a sliding layer.

    vLLM ignores attention_chunk_size, which these configs carry (model_arch_config_convertor.py).
    """
    full = _heads(config, "num_attention_heads", "num_key_value_heads", "head_dim", "v_head_dim")
    slides = _pattern(config, config.layers())
    if not any(slides):
        return full.shape([full.full()] * len(slides))
    swa = _heads(
        config,
        *(("swa_num_attention_heads", "num_attention_heads"), ("swa_num_key_value_heads", "num_key_value_heads")),
        *(("swa_head_dim", "head_dim"), ("swa_v_head_dim", "v_head_dim")),
    )
    window = config.integer("sliding_window_size", "sliding_window")
    layers = [swa.window(window) if sliding else full.full() for sliding in slides]
    return full.shape(
        layers, sinks=config.flag("add_swa_attention_sink_bias"), draft_layers=(swa.window(window),) * _DRAFTS
    )


def _heads(
    config: Fields,
    heads: str | tuple[str, ...],
    kv_heads: str | tuple[str, ...],
    head_dim: str | tuple[str, ...],
    head_dim_v: str | tuple[str, ...],
) -> GroupedQuery:
    names = [(name,) if isinstance(name, str) else name for name in (heads, kv_heads, head_dim, head_dim_v)]
    return geometry(
        config,
        config.integer(*names[0]),
        config.integer(*names[1]),
        config.integer(*names[2]),
        config.maybe_integer(*names[3]),
        name=names[1][0],
    )


def _pattern(config: Fields, count: int) -> list[bool]:
    if config.has("hybrid_layer_pattern"):
        return [value == 1 for value in listed(config, "hybrid_layer_pattern", count)]
    types = sliding_types(config, count)
    if types is not None:
        return [name == SLIDING for name in types]
    period = config.integer("hybrid_block_size", default=_FULL_PERIOD, high=MAX_LAYERS)
    return [i > 0 and (i + 1) % period != 0 for i in range(count)]
