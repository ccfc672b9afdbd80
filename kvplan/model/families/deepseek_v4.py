"""DeepSeek-V4: a sliding window of latents in every layer, and in most of them a compressed cache of all tokens."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._latent import draft_count
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import CompressedLatent, Layer, Shape

_SLIDING, _SPARSE, _HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
_TYPE_OF_RATIO = {0: _SLIDING, 4: _SPARSE, 128: _HEAVY}  # as transformers 5.20.2 reads the older compress_ratios
_ROPE_FRACTION = 64 / 512  # DeepseekV4Config's default (transformers 5.20.2)
_INDEXED_RATIO = 4  # the ratio whose states an indexer selects (vLLM 0.33.0, models/deepseek_v4/attention.py)


@reads("DeepseekV4ForCausalLM", "DeepseekV4ForConditionalGeneration", model_types=("deepseek_v4", "deepseek_ref"))
def read(config: Fields) -> Shape:
    """Return the shape of a DeepSeek-V4 checkpoint; its prediction layers keep the window alone."""
    types = _types(config)
    ratios = {name: _ratio(config, name) for name in set(types)}
    drafts = draft_count(config, "num_nextn_predict_layers")
    return Shape(
        layers=tuple(_layer(config, ratios[name]) for name in types),
        heads=config.integer("num_attention_heads"),
        kv_heads=config.integer("num_key_value_heads"),
        head_dim=config.integer("head_dim"),
        prefix_lm=config.integer("vision_n_layers", default=0, low=0) > 0,
        draft_layers=(_layer(config, 0),) * drafts,
        index_topk=config.maybe_integer("index_topk"),
    )


def _layer(config: Fields, ratio: int) -> Layer:
    head_dim = config.integer("head_dim")
    rope_dim = _rope_dim(config, head_dim)
    index = config.integer("index_head_dim") if ratio == _INDEXED_RATIO else None
    return (CompressedLatent(head_dim, rope_dim, config.integer("sliding_window"), ratio, index),)


def _rope_dim(config: Fields, head_dim: int) -> int:
    """Return qk_rope_head_dim, or the fraction of a head that partial_rotary_factor says, an eighth by default."""
    rope_dim = config.maybe_integer("qk_rope_head_dim")
    if rope_dim is None:
        fraction = config.maybe_number("partial_rotary_factor")
        rope_dim = int(head_dim * (_ROPE_FRACTION if fraction is None else fraction))
    if not 0 < rope_dim <= head_dim:
        raise config.contradicts("qk_rope_head_dim", "head_dim", why=f"{rope_dim} elements of a head of {head_dim}")
    return rope_dim


def _types(config: Fields) -> list[str]:
    """Return the layer types: given, from compress_ratios (0, 4 or 128 a layer), else the class's default pattern.

    The lists of older checkpoints go on with the prediction layers, which are not counted here.
    """
    count = config.layers()
    name, types = "layer_types", config.maybe_texts("layer_types")
    ratios = config.maybe_integers("compress_ratios", count=2 * MAX_LAYERS)
    if types is None and ratios is not None:
        for ratio in ratios:
            if ratio not in _TYPE_OF_RATIO:
                raise config.bad("compress_ratios", "made of 0, 4 and 128", ratio)
        name, types = "compress_ratios", [_TYPE_OF_RATIO[ratio] for ratio in ratios]
    if types is None:
        return [_SPARSE if index > 1 and index % 2 else _HEAVY for index in range(count)]
    if len(types) < count:
        raise config.contradicts(name, "num_hidden_layers", why=f"{len(types)} entries for {count} layers")
    for one in types:
        if one not in (_SLIDING, _SPARSE, _HEAVY):
            raise config.bad(name, f"made of {_SLIDING}, {_SPARSE} and {_HEAVY}", one)
    return types[:count]


def _ratio(config: Fields, layer_type: str) -> int:
    """Return how many tokens a state of this layer type stands for; 0: it keeps the window alone."""
    if layer_type == _SLIDING:
        return 0
    older, default = {_SPARSE: ("compress_rate_csa", 4), _HEAVY: ("compress_rate_hca", 128)}[layer_type]
    rates = config.maybe_section("compress_rates")
    given = config.maybe_integer(older)
    if given is None and rates is not None:
        given = rates.integer(layer_type, low=0, default=0)
    return default if given is None else given
