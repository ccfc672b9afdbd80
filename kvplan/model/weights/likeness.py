"""What an architecture without a rule most likely holds: the blocks that its caches and its sizes call for.

Of the 134 built-in checkpoints whose weights are known, 113 are met to 3 % and 118 to 10 % when their rules are left
out; those that are missed mix layers of several kinds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kvplan.errors import InvalidConfig
from kvplan.model.fields import Fields
from kvplan.model.read import text_section
from kvplan.model.spec import (
    Cache,
    Chunked,
    Full,
    GatedDeltaNet,
    Latent,
    Mamba1,
    Mamba2,
    ModelSpec,
    Shared,
    ShortConv,
    State,
    Window,
)
from kvplan.model.weights.blocks import attention, experts, gated, rope, router, two_layers
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.latent import latent_attention
from kvplan.model.weights.mixers import gated_delta, mamba1, mamba2, short_conv
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.sparse import rest, shared, sparse_layers
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import encoder_layer, tower

_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts")
_SHARED = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
_UNGATED = frozenset({"relu", "relu2", "gelu", "gelu_new", "gelu_fast", "quick_gelu"})
_SECTIONS = ("vision_config", "audio_config", "encoder_config", "vit_config")


def likeness(model: ModelSpec) -> list[Part]:
    """Return the parts that a model like this has; raises InvalidConfig where its config lacks the sizes."""
    root = Fields(model.config)
    config = text_section(root)
    text = Text(config, model.shape, model.architecture, nested=config is not root)
    hidden, at = text.hidden, text.at()
    by_cache: defaultdict[tuple[Cache, ...], list[int]] = defaultdict(list)
    for layer, caches in enumerate(model.shape.layers):
        by_cache[caches].append(layer)
    parts = [*ends(text), *at.norms(hidden, *TWO_NORMS), *rope(text), *_forward(text)]
    for caches, layers in by_cache.items():
        for cache in caches:
            parts += _mixer(text.at(layers=layers), text, cache)
    for name in _SECTIONS:
        section = root.maybe_section(name)
        parts += _encoder(section, name, hidden) if section is not None else []
    return parts


def _mixer(at: Scope, text: Text, cache: Cache) -> list[Part]:
    """Return what computes a cache: attention's projections, or the mixer that keeps a state."""
    hidden, bias = text.hidden, text.flag("attention_bias", "qkv_bias", "use_bias")
    match cache:
        case Full() | Window() | Chunked():
            heads, dims = (text.shape.heads, cache.kv_heads), (cache.head_dim, cache.head_dim_v)
            return attention(at, text, bias=bias, heads=heads, dims=dims)
        case Latent():
            return latent_attention(at, text)
        case Shared():
            width = text.shape.heads * text.shape.head_dim
            return [at.linear("q_proj", width, hidden), at.linear("o_proj", hidden, width, Role.ROW)]
        case State(mixer=Mamba1() as mixer):
            return mamba1(at, hidden, mixer, -(-hidden // 16))
        case State(mixer=Mamba2() as mixer):
            return mamba2(at, hidden, mixer)
        case State(mixer=ShortConv() as mixer):
            return short_conv(at, hidden, mixer)
        case State(mixer=GatedDeltaNet() as mixer):
            return gated_delta(at, hidden, mixer)
        case _:
            return []  # indexers and rarer states: a few per cent at most


def _forward(text: Text) -> list[Part]:
    """Return dense layers, and experts with what goes beside them where the config counts any."""
    config, hidden = text.config, text.hidden
    count = config.maybe_integer(*_COUNTS, low=0) or 0
    if count < 2:
        return _dense(text, text.layers)
    moe = sparse_layers(text)
    width = text.same("moe_intermediate_size") if config.has("moe_intermediate_size") else text.intermediate
    common = config.maybe_integer("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", low=0)
    if common is None:
        common = width * (config.maybe_integer(*_SHARED, low=0) or 0)
    at, dense = text.at(layers=moe), rest(text, moe)
    return [
        *(_dense(text, dense) if dense else []),
        *router(at, count, hidden),
        *experts(at, count, hidden, width),
        *shared(at, hidden, common),
    ]


def _dense(text: Text, layers: Iterable[int]) -> list[Part]:
    """Return feed-forward layers, gated unless the activation tells an older kind; none where all layers are states."""
    config, at = text.config, text.at(layers=layers)
    given = config.has("intermediate_size") or config.has("ffn_hidden_size") or config.has("ffn_dim")
    if not given and all(isinstance(cache, State) for cache in text.shape.caches()):
        return []
    width = text.intermediate if given else 4 * text.hidden
    activation = config.maybe_text("hidden_act", "activation_function", "hidden_activation", "mlp_hidden_act") or "silu"
    blocks = two_layers if activation in _UNGATED or not given else gated
    return blocks(at, text.hidden, width)


def _encoder(config: Fields, name: str, out: int) -> list[Part]:
    """Return a plain encoder of the section's sizes and a projector of two layers; nothing where it has no sizes."""
    try:
        hidden = config.maybe_integer("hidden_size", "embed_dim", "d_model", "width")
        count = config.maybe_integer("num_hidden_layers", "depth", "encoder_layers", "layers", "num_layers")
        width = config.maybe_integer("intermediate_size", "encoder_ffn_dim")
    except InvalidConfig:
        return []
    if not hidden or not count:
        return []
    at = tower(name)
    layers = encoder_layer(at.under("layers.{}").copies(count), hidden, width or 4 * hidden)
    return [*layers, at.linear("linear_1", out, hidden, Role.TOWER), at.linear("linear_2", out, out, Role.TOWER)]
