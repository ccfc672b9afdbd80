"""What one decode step reads of a request's cache on one rank: the semantics of each kind of layer, not its pages."""

from __future__ import annotations

from math import prod
from typing import assert_never

from kvplan.engine.vllm.states import state_parts
from kvplan.model.spec import (
    Cache,
    Chunked,
    CompressedLatent,
    Cross,
    Full,
    Indexer,
    Latent,
    Shape,
    Shared,
    State,
    Window,
)
from kvplan.record import dataclass

# bytes of an element: NVFP4 keeps an 8-bit scale for each 16
_ITEM = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "nvfp4": 0.5625}
_INDEX_KEY = 1 + 4 / 128  # a byte an element and a float32 scale for each 128


@dataclass(frozen=True, slots=True)
class Request:
    """A request of `tokens`, as one of `tp` ranks sees it; `dcp` ranks share its tokens among them."""

    tokens: int
    tp: int
    dcp: int
    kv_dtype: str
    dtype: str

    @property
    def item(self) -> float:
        """Bytes of an element of keys and values."""
        return _ITEM.get(self.kv_dtype if self.kv_dtype != "auto" else self.dtype, _ITEM[self.dtype])


def read_of(shape: Shape, request: Request) -> float:
    """Return the bytes that a step reads of one request's cache, over all layers."""
    return sum(_cache(cache, shape, request) for cache in shape.caches())


def _cache(cache: Cache, shape: Shape, request: Request) -> float:
    tokens = request.tokens
    match cache:
        case Full() | Cross():
            return _token(cache, request) * tokens / request.dcp
        case Window():
            return _token(cache, request) * min(tokens, cache.window)
        case Chunked():
            return _token(cache, request) * min(tokens, cache.chunk)
        case Latent():
            chosen = tokens if shape.index_topk is None or cache.dense else min(tokens, shape.index_topk)
            return (cache.rank + cache.rope_dim) * request.item * chosen / request.dcp
        case Indexer():
            item = _INDEX_KEY if cache.quantised else _ITEM[request.dtype]
            return cache.head_dim * item * tokens
        case CompressedLatent():
            return _compressed(cache, shape, request)
        case State():
            parts = state_parts(cache, request.tp, 0, request.dtype)
            return float(sum(part.item * prod(part.shape) for part in parts))
        case Shared():
            return _cache(shape.layers[cache.layer][0], shape, request)
        case _:
            assert_never(cache)


def _token(cache: Full | Window | Chunked | Cross, request: Request) -> float:
    heads = max(1, cache.kv_heads // max(1, request.tp // request.dcp))
    return heads * (cache.head_dim + cache.head_dim_v) * request.item


def _compressed(cache: CompressedLatent, shape: Shape, request: Request) -> float:
    """Return the window, the states that are selected of one for each `ratio` tokens, and the keys that select them."""
    folded = request.tokens // cache.ratio if cache.ratio > 1 else 0
    selected = folded if cache.index_head_dim is None or shape.index_topk is None else min(folded, shape.index_topk)
    keys = folded * (cache.index_head_dim or 0) * _INDEX_KEY
    return (min(request.tokens, cache.window) + selected) * cache.head_dim * request.item + keys


def attention_flops(shape: Shape, tokens: int) -> float:
    """Return the FLOPs of attention over a prompt: two an element of key and value, for each pair that attends."""
    return sum(2 * shape.heads * _width(cache, shape) * _pairs(cache, tokens) for cache in shape.caches())


def _width(cache: Cache, shape: Shape) -> int:
    """Return the elements of a key and a value as prefill computes them."""
    match cache:
        case Full() | Window() | Chunked():
            return cache.head_dim + cache.head_dim_v
        case Latent():
            return sum(shape.mla_dims or (0, 0, 0))
        case CompressedLatent():
            return 2 * cache.head_dim
        case Shared():
            return _width(shape.layers[cache.layer][0], shape)
        case Cross() | Indexer() | State():
            return 0  # linear in the prompt, or none of its own
        case _:
            assert_never(cache)


def _pairs(cache: Cache, tokens: int) -> float:
    """Return how many pairs of a prompt's tokens attend in a causal layer."""
    match cache:
        case Window():
            seen = min(tokens, cache.window)
        case Chunked():
            return tokens * min(tokens, cache.chunk) / 2
        case CompressedLatent():
            seen = min(tokens, cache.window)
        case _:
            seen = tokens
    return tokens * seen - seen * seen / 2
