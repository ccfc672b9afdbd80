"""A model in one line, for people: `bf16, 32 layers, GQA 8 x 128`."""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from kvplan.model.spec import (
    Cache,
    Chunked,
    CompressedLatent,
    Cross,
    Full,
    GatedDeltaNet,
    Indexer,
    KimiDelta,
    Latent,
    Lightning,
    LinearRecurrence,
    Mamba1,
    Mamba2,
    Mixer,
    ModelSpec,
    Rwkv,
    Shared,
    ShortConv,
    State,
    Window,
)

SHORT_DTYPE = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def describe(model: ModelSpec) -> str:
    """Return dtype or quantization, number of layers, and the kinds of cache with their counts."""
    weights = model.quantization.method if model.quantization is not None else SHORT_DTYPE[model.dtype]
    counts = Counter(describe_cache(cache, model.shape.heads) for cache in model.shape.caches())
    kinds = ", ".join(name if len(counts) == 1 else f"{count} {name}" for name, count in counts.items())
    return f"{weights}, {len(model.shape.layers)} layers, {kinds or 'no KV cache'}"


def describe_cache(cache: Cache, heads: int) -> str:
    """Return what one cache is, with its numbers."""
    match cache:
        case Full():
            return f"{attention_name(cache.kv_heads, heads)} {_geometry(cache)}"
        case Window():
            return f"sliding {cache.window:,} ({_geometry(cache)})"
        case Chunked():
            return f"chunked {cache.chunk:,} ({_geometry(cache)})"
        case Cross():
            return f"cross-attention {_geometry(cache)}"
        case Latent():
            return f"MLA {cache.rank}+{cache.rope_dim}"
        case Indexer():
            return f"indexer {cache.head_dim}"
        case CompressedLatent():
            return f"MLA compressed {cache.ratio}:1" if cache.ratio > 1 else f"MLA sliding {cache.window}"
        case State():
            return mixer_name(cache.mixer)
        case Shared():
            return "shared"
        case _:
            assert_never(cache)


def attention_name(kv_heads: int, heads: int) -> str:
    """Return MHA, GQA or MQA."""
    if kv_heads == 1 and heads > 1:
        return "MQA"
    return "MHA" if kv_heads == heads else "GQA"


def _geometry(cache: Full | Window | Chunked | Cross) -> str:
    width = f"{cache.head_dim}" if cache.head_dim == cache.head_dim_v else f"{cache.head_dim}/{cache.head_dim_v}"
    return f"{cache.kv_heads} x {width}"


def mixer_name(mixer: Mixer) -> str:
    """Return the name of a state layer's mixer."""
    match mixer:
        case Mamba1():
            return "Mamba"
        case Mamba2():
            return "Mamba-2"
        case GatedDeltaNet():
            return "gated delta net"
        case KimiDelta():
            return "Kimi delta attention"
        case Lightning():
            return "lightning attention"
        case ShortConv():
            return "short convolution"
        case LinearRecurrence():
            return "linear recurrence"
        case Rwkv():
            return "RWKV"
        case _:
            assert_never(mixer)
