"""LFM2: gated short convolutions with attention layers between them, dense or with experts."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import encoder, grouped_query
from kvplan.model.families._multimodal import wraps
from kvplan.model.families._state import FULL, block_types, kernel_of, state
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Shape, ShortConv

_CONV = "conv"

reads("Lfm2VlForConditionalGeneration", model_types=("lfm2_vl",))(wraps(otherwise="Lfm2ForCausalLM"))


@reads("Lfm2ForCausalLM", model_types=("lfm2",))
@reads("Lfm2MoeForCausalLM", model_types=("lfm2_moe",))
def read(config: Fields) -> Shape:
    """Return the shape of an LFM2 checkpoint; `conv_dim`, where given, is the width that its convolutions run over."""
    heads = grouped_query(config, own_head_dim=False)
    width = config.maybe_integer("conv_dim") or config.integer("hidden_size")
    conv = state(ShortConv(width, kernel_of(config, "conv_L_cache")))
    return heads.shape([heads.full() if name == FULL else conv for name in _types(config)])


@reads("Lfm2BidirectionalModel")
def read_encoder(config: Fields) -> Shape:
    """Return the shape of an LFM2 embedding model, which sees its input at once and keeps nothing."""
    return encoder(read(config))


def _types(config: Fields) -> list[str]:
    """Return the layer types: given, or full in the layers of full_attn_idxs (all, where that is missing too)."""
    count = config.layers()
    types = block_types(config, count, FULL, _CONV)
    if types is not None:
        return types
    full = config.maybe_integers("full_attn_idxs", high=MAX_LAYERS)
    if full is None:
        if config.model_type == "lfm2_moe":
            raise config.lacks("layer_types")
        return [FULL] * count
    if any(index >= count for index in full):
        raise config.contradicts("full_attn_idxs", "num_hidden_layers", why=f"an index beyond {count} layers")
    return [FULL if index in full else _CONV for index in range(count)]
