"""Bytes a token and blocks of TensorRT-LLM's pools: one, or one for each attention window.

Source: the public code of KvCacheCreator (releases 1.0 to 1.2) and logs; see profiles/engines/trtllm.yaml.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from kvplan.model.spec import Cache, Chunked, CompressedLatent, Cross, Full, Indexer, Latent, ModelSpec, Window
from kvplan.record import dataclass

_ITEM = {"bfloat16": Fraction(2), "float16": Fraction(2), "float32": Fraction(4), "fp8": Fraction(1)}
_NVFP4 = Fraction(1, 2) + Fraction(1, 16)  # two values a byte, and a byte of scale for 16 of them


@dataclass(frozen=True, slots=True)
class WindowPool:
    """Layers that keep the last `window` tokens (None: all), the bytes that a token takes in them, and the blocks."""

    window: int | None
    layers: int
    token_bytes: int
    blocks: int = 0


def item_bytes(kv_dtype: str, model_dtype: str) -> Fraction:
    """Return the bytes of an element, scales of 4-bit ones included."""
    return _NVFP4 if kv_dtype == "nvfp4" else _ITEM["fp8" if kv_dtype == "fp8" else model_dtype]


def layer_pools(
    model: ModelSpec, item: Fraction, tensor: int, stages: int, windows: Sequence[int] | None, length: int
) -> tuple[WindowPool, ...]:
    """Return the pools without blocks, the whole-length one first; `windows` are given ones, repeated over the layers.

    A pipeline stage has its share of the layers, rounded up. A window as long as the longest request is none.
    """
    found: Counter[int | None] = Counter()
    sizes: Counter[int | None] = Counter()
    for index, layer in enumerate(model.shape.layers):
        for cache in layer:
            elements = _elements(cache, tensor)
            if not elements:
                continue
            window = windows[index % len(windows)] if windows is not None else _window(cache)
            key = None if window is None or window >= length else window
            found[key] += 1
            sizes[key] += int(elements * item)
    ordered = sorted(found, key=lambda window: (window is not None, window or 0))
    return tuple(WindowPool(key, -(-found[key] // stages), -(-sizes[key] // stages)) for key in ordered)


def _elements(cache: Cache, tensor: int) -> int:
    """Return the elements that one rank keeps of a token; ranks beyond the KV heads copy one."""
    match cache:
        case Full() | Window() | Chunked() | Cross():
            return -(-cache.kv_heads // tensor) * (cache.head_dim + cache.head_dim_v)
        case Latent():
            return cache.rank + cache.rope_dim
        case CompressedLatent():
            return cache.head_dim
        case Indexer():
            return cache.head_dim
        case _:
            return 0


def _window(cache: Cache) -> int | None:
    match cache:
        case Window():
            return cache.window
        case Chunked():
            return cache.chunk
        case CompressedLatent():
            return cache.window
        case _:
            return None


def fill(pools: Sequence[WindowPool], available: int, block: int, length: int) -> tuple[WindowPool, ...]:
    """Return the pools with their blocks: memory goes to each by its window times the bytes of a token in it.

    Tokens are rounded up to a whole block, as the engine's figures are.
    """
    weights = [(pool.window or length) * pool.token_bytes for pool in pools]
    total = sum(weights)
    return tuple(
        WindowPool(
            pool.window, pool.layers, pool.token_bytes, -(-(available * weight // total // pool.token_bytes) // block)
        )
        for pool, weight in zip(pools, weights, strict=True)
    )
