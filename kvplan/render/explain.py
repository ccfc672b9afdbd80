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
    tp = int(plan.engine_settings.get("tensor_parallel_size") or plan.engine_settings.get("tp_size", 1))
    for cache, count in Counter(plan.model.shape.caches()).items():
        lines += [f"  {text}" for text in _layer(cache, count, plan, tp)]
    if plan.kv.groups:
        lines += ["", "  the engine's groups (layers of a group share a block table; all groups draw from one pool)"]
        alike = Counter(map(_group, plan.kv.groups))
        lines += [f"    {told}" if count == 1 else f"    {count} times {told} each" for told, count in alike.items()]
    return [*lines, *_division(plan)]


def _layer(cache: Cache, count: int, plan: Plan, tp: int) -> list[str]:
    name = describe_cache(cache, plan.model.shape.heads)
    head = f"{count} x {name}:"
    match cache:
        case Full() | Window() | Chunked() | Cross():
            return [f"{head} {_shares(plan, cache)}", *_bytes(cache, count, plan, tp), f"  {_kept(cache)}"]
        case Latent():
            return [
                f"{head} one compressed vector of {cache.rank} numbers and {cache.rope_dim} for the position,",
                "  key and value at once; every GPU keeps all of it, whatever the tensor-parallel size",
            ]
        case Indexer():
            return [f"{head} a key of {cache.head_dim} numbers a token, by which sparse attention picks what it reads"]
        case CompressedLatent():
            return [
                f"{head} the last {cache.window} tokens as they are,",
                f"  and one state for every {max(1, cache.ratio)} tokens",
            ]
        case State():
            return [f"{head} {mixer_name(cache.mixer)} keeps a state of constant size a request, however long it is"]
        case Shared():
            return [f"{head} reads the cache of layer {cache.layer} and keeps none"]
        case _:
            assert_never(cache)


def _shares(plan: Plan, cache: Full | Window | Chunked | Cross) -> str:
    heads, kind = plan.model.shape.heads, attention_name(cache.kv_heads, plan.model.shape.heads)
    if kind == "MHA":
        return f"multi-head attention, each of {heads} heads with a key and a value of its own"
    name = "multi-query" if kind == "MQA" else "grouped-query"
    return f"{name} attention, {heads} query heads share {cache.kv_heads} KV heads"


def _bytes(cache: Full | Window | Chunked | Cross, count: int, plan: Plan, tp: int) -> list[str]:
    """Return the product that gives a token's bytes on one GPU."""
    heads = max(1, cache.kv_heads // tp)
    split = f" ({cache.kv_heads} over {tp} GPUs{', copied' if cache.kv_heads < tp else ''})" if tp > 1 else ""
    dtype = kv_dtype_name(plan)
    item = _ITEM.get(dtype)
    numbers = f"{heads} KV heads{split} x (a key of {cache.head_dim} + a value of {cache.head_dim_v})"
    if item is None:
        return [f"  {numbers} in {dtype}, whose scales are counted in the pages below"]
    size = heads * (cache.head_dim + cache.head_dim_v) * item
    unit = "byte" if item == 1 else "bytes"
    lines = [f"  {numbers} x {item} {unit} of {dtype} = {size:,} bytes a token and layer"]
    return lines + ([f"  x {count} layers = {size * count:,} bytes a token"] if count > 1 else [])


_ITEM = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}


def _kept(cache: Full | Window | Chunked | Cross) -> str:
    match cache:
        case Full():
            return "kept for every token of the request"
        case Window():
            return f"kept for the last {cache.window:,} tokens, and for those that are in flight"
        case Chunked():
            return f"kept for the current chunk of {cache.chunk:,} tokens, and for those that are in flight"
        case Cross():
            return "kept for the encoder's tokens, once a request"
        case _:
            assert_never(cache)


def _group(group: GroupFacts) -> str:
    return (
        f"{group.layers} layers, {group.kind}: blocks of {group.block_size} tokens,"
        f" a page of {group.page_bytes:,} bytes; one request claims {group.blocks_per_request:,} blocks"
    )


def _division(plan: Plan) -> list[str]:
    kv = plan.kv
    if kv.bytes_per_block is None or not kv.groups:
        return []
    claimed = sum(group.blocks_per_request for group in kv.groups)
    lines = [
        "",
        f"  a block id costs {kv.bytes_per_block:,} bytes: the widest group's pages",
        f"  one request of {kv.max_model_len:,} claims {claimed:,} blocks, {binary(kv.bytes_per_block * claimed)}",
    ]
    if kv.num_blocks is None or kv.max_concurrency is None or plan.budget.kv_bytes is None:
        return lines
    # with pipeline stages the one with least memory sets the blocks
    least = plan.budget.kv_bytes if plan.budget.least_kv_bytes is None else plan.budget.least_kv_bytes
    pool, requests = gib(least, 2), quantity(kv.max_concurrency, 2)
    return [
        *lines,
        f"  {pool} / {kv.bytes_per_block:,} bytes = {kv.num_blocks:,} blocks, cut to a whole number",
        *_printed(plan, claimed, requests),
    ]


def _printed(plan: Plan, claimed: int, requests: str) -> list[str]:
    """Return how the printed figures come from the blocks; vLLM before 0.22 counts the tokens of one group's share."""
    kv = plan.kv
    if kv.tokens == int((kv.max_concurrency or 0) * kv.max_model_len):
        return [
            f"  {kv.num_blocks:,} / {claimed:,} = {requests} requests at once",
            f"  {requests} x {kv.max_model_len:,} = {kv.tokens:,} tokens",
        ]
    share = f" / {len(kv.groups)} groups" if len(kv.groups) > 1 else ""
    return [
        f"  {kv.num_blocks:,} blocks{share} x {kv.block_size} = {kv.tokens:,} tokens",
        f"  {kv.num_blocks:,} / {claimed:,} = {requests} requests at once",
    ]
