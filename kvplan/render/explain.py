"""`--explain`: the formulas with this model's numbers, group by group, in words that a newcomer follows."""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from kvplan.model.describe import attention_name, describe_cache, mixer_name
from kvplan.model.spec import (
    Cache,
    Chunked,
    CompressedLatent,
    Cross,
    Full,
    Indexer,
    Latent,
    Shared,
    State,
    Window,
)
from kvplan.planner import GroupFacts, Plan
from kvplan.render.text import kv_dtype_name
from kvplan.units import binary, gib, quantity


def explain(plan: Plan) -> list[str]:
    """Return the explanation: each kind of layer, then the groups, then the division that gives the printed figures."""
    lines = ["how the cache comes about", ""]
    tp = int(plan.engine_settings.get("tensor_parallel_size", 1))
    for cache, count in Counter(plan.model.shape.caches()).items():
        lines += [f"  {text}" for text in _layer(cache, count, plan, tp)]
    if plan.kv.groups:
        lines += ["", "  the engine's groups (layers of a group share a block table; all groups draw from one pool)"]
        lines += [f"    {_group(group)}" for group in plan.kv.groups]
    return [*lines, *_division(plan)]


def _layer(cache: Cache, count: int, plan: Plan, tp: int) -> list[str]:
    name = describe_cache(cache, plan.model.shape.heads)
    head = f"{count} x {name}:"
    match cache:
        case Full() | Window() | Chunked() | Cross():
            heads = max(1, cache.kv_heads // tp)
            split = f" of {cache.kv_heads} over {tp} GPUs" if tp > 1 else ""
            copied = " (copied: fewer heads than GPUs)" if cache.kv_heads < tp else ""
            kind = attention_name(cache.kv_heads, plan.model.shape.heads)
            return [
                f"{head} {kind}, {plan.model.shape.heads} query heads share {cache.kv_heads} KV heads",
                f"  a token keeps a key of {cache.head_dim} and a value of {cache.head_dim_v} numbers"
                f" for {heads} KV heads{split}{copied}, in {kv_dtype_name(plan)}",
                f"  {_kept(cache)}",
            ]
        case Latent():
            return [
                f"{head} one compressed vector of {cache.rank} numbers and {cache.rope_dim} for the position, key and"
                " value at once; every GPU keeps all of it, whatever the tensor-parallel size",
            ]
        case Indexer():
            return [f"{head} a key of {cache.head_dim} numbers a token, by which sparse attention picks what it reads"]
        case CompressedLatent():
            return [
                f"{head} the last {cache.window} tokens as they are, and one state for every {max(1, cache.ratio)} tokens",
            ]
        case State():
            return [f"{head} {mixer_name(cache.mixer)} keeps a state of constant size a request, however long it is"]
        case Shared():
            return [f"{head} reads the cache of layer {cache.layer} and keeps none"]
        case _:
            assert_never(cache)


def _kept(cache: Full | Window | Chunked | Cross) -> str:
    match cache:
        case Full():
            return "of every token of the request"
        case Window():
            return f"of the last {cache.window:,} tokens, and of those that are in flight"
        case Chunked():
            return f"of the current chunk of {cache.chunk:,} tokens, and of those that are in flight"
        case Cross():
            return "of the encoder's tokens, once a request"
        case _:
            assert_never(cache)


def _group(group: GroupFacts) -> str:
    return (
        f"{group.layers} layers, {group.kind}: blocks of {group.block_size} tokens, a page of {group.page_bytes:,} bytes;"
        f" one request claims {group.blocks_per_request:,} blocks"
    )


def _division(plan: Plan) -> list[str]:
    kv = plan.kv
    if kv.bytes_per_block is None or not kv.groups:
        return []
    claimed = sum(group.blocks_per_request for group in kv.groups)
    lines = [
        "",
        f"  a block id costs {kv.bytes_per_block:,} bytes: the widest group's pages",
        f"  one request of {kv.max_model_len:,} tokens claims {claimed:,} blocks, {binary(claimed * kv.bytes_per_block)}",
    ]
    if kv.num_blocks is None or kv.max_concurrency is None or plan.budget.kv_bytes is None:
        return lines
    return [
        *lines,
        f"  {gib(plan.budget.kv_bytes, 2)} / {kv.bytes_per_block:,} bytes = {kv.num_blocks:,} blocks, cut to a whole number",
        f"  {kv.num_blocks:,} / {claimed:,} = {quantity(kv.max_concurrency, 2)} requests at once,"
        f" x {kv.max_model_len:,} = {kv.tokens:,} tokens",
    ]
