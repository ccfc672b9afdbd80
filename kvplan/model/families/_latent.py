"""What the families with multi-head latent attention (MLA) share: its dimensions, its indexers, its expanded form.

Facts about what an engine builds are from vLLM 0.33.0's model classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.model.families._attention import GroupedQuery
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Indexer, Latent, Layer, Shape
from kvplan.record import dataclass

MAX_DRAFTS = 64  # DeepSeek-V3 carries 1 prediction layer, the largest checkpoint met 10


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """The dimensions of MLA: the latent of `rank` + `rope_dim` is cached, keys and values are expanded from it.

    Keys have `nope_dim` + `rope_dim` elements a head, values `v_dim`.
    """

    heads: int
    kv_heads: int
    rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int

    def layer(self, *, dense: bool = False) -> Layer:
        """Return a layer that keeps the latent of every token; `dense` where others of the model are sparse."""
        return (Latent(self.rank, self.rope_dim, dense),)

    def indexed(self, key_dim: int) -> Layer:
        """Return a layer that also keeps an indexer's key of every token (DeepSeek sparse attention)."""
        return (Latent(self.rank, self.rope_dim), Indexer(key_dim, quantised=True))

    def shape(self, layers: Sequence[Layer], **more: Any) -> Shape:
        """Return the shape of a model with this attention; its head dimension is the cached one."""
        dims = (self.nope_dim, self.rope_dim, self.v_dim)
        return Shape(tuple(layers), self.heads, self.kv_heads, self.rank + self.rope_dim, mla_dims=dims, **more)


def latent_attention(config: Fields) -> LatentAttention:
    """Read the usual names of MLA. A missing num_key_value_heads means one a query head."""
    heads = config.integer("num_attention_heads")
    return LatentAttention(
        heads=heads,
        kv_heads=config.maybe_integer("num_key_value_heads") or heads,
        rank=config.integer("kv_lora_rank"),
        nope_dim=config.integer("qk_nope_head_dim", low=0),
        rope_dim=config.integer("qk_rope_head_dim", low=0),
        v_dim=config.integer("v_head_dim"),
    )


def expanded_attention(config: Fields) -> GroupedQuery:
    """Read the MLA dimensions for an engine that caches the expanded keys and values.

    Values are padded to the keys' dimension, so that both have qk_nope_head_dim + qk_rope_head_dim elements a head.
    """
    heads = config.integer("num_attention_heads")
    head_dim = config.integer("qk_nope_head_dim", low=0) + config.integer("qk_rope_head_dim", low=0)
    if head_dim == 0:
        raise config.contradicts("qk_nope_head_dim", "qk_rope_head_dim", why="a head of no elements")
    return GroupedQuery(heads, heads, head_dim, head_dim)


def draft_count(config: Fields, *names: str, default: int = 0) -> int:
    """Return how many multi-token-prediction layers the checkpoint carries, by the first of the named fields."""
    return config.integer(*names, low=0, high=MAX_DRAFTS, default=default)


def indexer_types(config: Fields, layers: int) -> list[str] | None:
    """Return the checked `indexer_types`, `full` or `shared` a layer, or None where the config has none."""
    types = config.maybe_texts("indexer_types")
    if types is None:
        return None
    if len(types) != layers:
        raise config.contradicts("indexer_types", "num_hidden_layers", why=f"{len(types)} types for {layers} layers")
    for name in types:
        if name not in ("full", "shared"):
            raise config.bad("indexer_types", "made of full, shared", name)
    return types


def indexed_layers(config: Fields, attention: LatentAttention) -> list[Layer]:
    """Return the layers of a sparse MLA model: every one attends by an index, not every one computes and keeps it.

    A layer that reuses the selection of an earlier one keeps the latent alone. The engine's schedule is
    `index_topk_pattern` (`S`: shared), else every `index_topk_freq`-th layer from `index_skip_topk_offset` on, by
    default every layer; `indexer_types` repeats it.
    """
    count = config.layers()
    key_dim = config.integer("index_head_dim")
    indexer_types(config, count)
    pattern = _pattern(config)
    freq = config.integer("index_topk_freq", default=1, high=MAX_LAYERS)
    offset = config.integer("index_skip_topk_offset", default=2, low=0, high=MAX_LAYERS)

    def shared(index: int) -> bool:
        if pattern is not None:
            return index < len(pattern) and pattern[index] == "S"
        return max(index - offset + 1, 0) % freq != 0

    return [attention.layer() if shared(index) else attention.indexed(key_dim) for index in range(count)]


def _pattern(config: Fields) -> Sequence[str] | None:
    if isinstance(config.raw("index_topk_pattern"), str):
        return config.maybe_text("index_topk_pattern")
    return config.maybe_texts("index_topk_pattern")
