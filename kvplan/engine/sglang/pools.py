"""Bytes a token, and how the memory that is left becomes pools of tokens, window tokens and state slots.

Arithmetic is in GiB as floats where the engine's is, so that the last token agrees. Source: SGLang 0.5.23,
model_executor/pool_configurator.py and mem_cache/kv_cache_configurator.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from kvplan.engine.sglang.served import Heads, Served
from kvplan.engine.sglang.settings import Settings
from kvplan.engine.vllm.states import state_parts
from kvplan.model.spec import State
from kvplan.record import dataclass
from kvplan.units import GIB, MIB

_WINDOW_STEP = 128  # tokens between evictions from a window pool


class PoolRefused(Exception):
    """The engine's refusal to start for a pool, with a stable code, what is the case and what to do."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool: `size` tokens or slots of `item_bytes` each, and the layers that write into it."""

    name: str
    size: int
    item_bytes: float
    layers: int


@dataclass(frozen=True, slots=True)
class Pools:
    """All pools; `tokens` is the figure that the engine prints as max_total_num_tokens."""

    tokens: int
    pools: tuple[Pool, ...]


# -- bytes a token ----------------------------------------------------------------------------------------------------


def heads_bytes(heads: Heads, settings: Settings) -> float:
    """Return the bytes of a token's keys and values in one layer on one rank."""
    count = max(1, heads.kv_heads // settings.attention_tensor)
    both = heads.head_dim + heads.head_dim_v
    if settings.kv_dtype in ("nvfp4", "fp4_mx_block16"):
        return count * both // 2 + count * both // 16
    scales = count * both // 32 if settings.kv_dtype == "mxfp8" else 0
    return count * both * settings.kv_item + scales


def latent_bytes(served: Served, settings: Settings, *, raw: bool) -> float:
    """Return the bytes of one layer's latent; sparse kernels keep FP8 ones with scales and a bf16 rope part."""
    rank, rope = served.latent
    if served.sparse and settings.kv_dtype == "fp8_e4m3" and not raw:
        return rank + rank // 128 * 4 + rope * 2
    if settings.kv_dtype in ("nvfp4", "fp4_mx_block16"):
        return (rank + rope) // 2 + (rank + rope) // 16
    return (rank + rope) * settings.kv_item


def index_bytes(served: Served, settings: Settings, *, hopper: bool) -> float:
    """Return the bytes of a token's index key in one layer that computes one."""
    index = served.index
    if index is None:
        return 0
    if index.quantised:
        return -(-(index.head_dim + index.head_dim // 128 * 4) // index.pooled)
    # MiniMax-M3 keeps them in the model's dtype, on Hopper in FP8 beside FP8 keys and values
    narrow = hopper and settings.kv_dtype == "fp8_e4m3"
    return index.head_dim * (1 if narrow else {"float32": 4}.get(settings.dtype, 2))


def token_bytes(served: Served, settings: Settings, *, index: float, raw_latent: bool) -> float:
    """Return the bytes of a token on one rank over all whole-length layers, drafts included."""
    if served.attention == "none":
        return 0
    if served.attention == "latent":
        one = latent_bytes(served, settings, raw=raw_latent)
    else:
        one = heads_bytes(served.heads, settings)
    kept = one * served.layers
    indexed = index * served.index.layers if served.index is not None else 0
    drafts = settings.drafts.layers if settings.drafts is not None else 0
    if served.sparse:
        return kept + indexed + int(kept * drafts / served.layers) + index * drafts
    total = kept + indexed
    return total + int(total * drafts / served.layers)


# -- pools of tokens --------------------------------------------------------------------------------------------------


def plain_pool(cell: float, available: int, settings: Settings, context: int, cap: int | None, layers: int) -> Pools:
    """Return one pool of whole-length tokens; a model without keys and values has as many as its context."""
    page = settings.backend.page_size
    tokens = int(available // cell) if cell else (cap or context)
    tokens = tokens // page * page
    if cap is not None and cap < tokens:
        tokens = cap // page * page
    return Pools(tokens, (Pool("full", tokens, cell, layers),))


def window_pools(served: Served, settings: Settings, available: int, cap: int | None, *, by_layers: bool) -> Pools:
    """Return a whole-length pool and a window pool in the ratio of --swa-full-tokens-ratio."""
    windows = served.windows
    assert windows is not None
    page = settings.backend.page_size
    full, window = heads_bytes(served.heads, settings), heads_bytes(windows.heads, settings)
    drafts = settings.drafts
    drafted = drafts.layers if drafts is not None else 0
    local = drafted if drafts is not None and drafts.windowed else 0
    whole = full * (windows.full_layers + drafted - local)
    if not windows.full_layers:
        cell = window * (windows.layers + local) + full * (drafted - local)
        tokens = int(available // cell) // page * page
        return Pools(tokens, (Pool("window", tokens, window * windows.layers, windows.layers),))
    if by_layers:
        return _split_layers(served, settings, available, cap)
    limit = settings.requests if not settings.radix and settings.chunk > 0 else None
    if limit is not None and windows.admitted is not None:
        held = _request_cap(settings, windows.admitted, limit)
        held = -(-held // page) * page
        tokens = int((available - held * window * (windows.layers + local)) // whole) // page * page
        if tokens <= 0:
            raise PoolRefused(
                "window_pool_leaves_nothing",
                f"the windows of {limit:,} requests take {held * window * windows.layers / GIB:.2f} GiB, "
                f"{available / GIB:.2f} are there",
                "a smaller --max-running-requests, or a larger --mem-fraction-static",
            )
    else:
        cell = whole + settings.window_ratio * (window * (windows.layers + local))
        tokens = int(available // cell) // page * page
        held = int(tokens * settings.window_ratio) // page * page
        check_window(held, windows.admitted, page)
    if cap is not None and cap < tokens:
        tokens = cap // page * page
        held = min(held, int(tokens * settings.window_ratio) // page * page) if limit is None else min(held, cap)
        if limit is None:
            check_window(held, windows.admitted, page)
    return Pools(
        tokens,
        (
            Pool("full", tokens, full * windows.full_layers, windows.full_layers),
            Pool("window", held, window * windows.layers, windows.layers),
        ),
    )


def _split_layers(served: Served, settings: Settings, available: int, cap: int | None) -> Pools:
    """Return the pools of releases that count whole layers first, then give windows their share of all tokens."""
    windows = served.windows
    assert windows is not None
    each = heads_bytes(served.heads, settings)
    layers = windows.layers + windows.full_layers
    tokens = int(available // (each * layers))
    if cap is not None:
        tokens = min(tokens, cap)
    full = int(tokens * layers / (settings.window_ratio * windows.layers + windows.full_layers))
    held = int(full * settings.window_ratio)
    return Pools(
        full,
        (
            Pool("full", full, each * windows.full_layers, windows.full_layers),
            Pool("window", held, each * windows.layers, windows.layers),
        ),
    )


def check_window(tokens: int, window: int | None, page: int) -> None:
    """Refuse a window pool that could never admit a request."""
    if window is not None and window + page >= tokens:
        raise PoolRefused(
            "window_pool_too_small",
            f"the window pool holds {tokens:,} tokens, one request needs more than {window:,} + a page of {page}",
            "a larger --mem-fraction-static or --swa-full-tokens-ratio",
        )


def _request_cap(settings: Settings, window: int, requests: int) -> int:
    """Return the window tokens that so many requests may hold at once, a chunk in flight for each overlapped step."""
    page = settings.backend.page_size
    drafts = settings.drafts.tokens if settings.drafts is not None else 1
    each = window + _WINDOW_STEP * drafts + page + page
    count = max(1, requests // settings.attention_dp)
    return each * count + (1 + settings.overlap) * settings.chunk + page


# -- state slots ------------------------------------------------------------------------------------------------------


def slot_bytes(states: Sequence[State], tensor: int, dtype: str) -> int:
    """Return the bytes of one request's states on one rank; convolutions are kept in bf16, the rest as `dtype` says."""
    total = 0
    for state in states:
        kept = replace(state, recurrent_dtype=dtype if dtype != "auto" else state.recurrent_dtype or "float32")
        total += sum(prod(part.shape) * part.item for part in state_parts(kept, tensor, 0, "bfloat16"))
    return total


@dataclass(frozen=True, slots=True)
class Slots:
    """State slots: how many, the bytes of one, and the GiB that are left for tokens."""

    count: int
    slot: int
    rest: float


def state_slots(settings: Settings, slot: int, rest: float, asked: int | None, *, padding: int = 1) -> Slots:
    """Split what is left, in GiB, between states and tokens; `padding` slots more than are counted are allocated."""
    drafts = settings.drafts.tokens if settings.drafts is not None else 0
    per_request, groups = settings.slots_per_request, settings.attention_dp
    requests = max(1, settings.requests // groups) if settings.requests is not None else 0
    if asked is not None:
        count = asked // groups
        reserved = min(requests, count // per_request) + 1 if drafts else 0
    elif not settings.radix and settings.requests is not None:
        count = requests
        reserved = count + 1 if drafts else 0
    else:
        share = rest * settings.state_ratio / (1 + settings.state_ratio) * GIB
        count = int((share - slot * (1 + drafts)) // (slot * (1 + drafts / per_request)))
        reserved = min(requests, count // per_request) + 1 if drafts else 0
    rest -= slot * reserved * drafts / GIB
    if count <= 0:
        left = f"{rest:.2f} GiB are left" if rest > 0 else f"{-rest:.2f} GiB are missing"
        more = "a larger --mem-fraction-static, fewer draft tokens, or more GPUs (--tp-size)"
        raise PoolRefused(
            "states_do_not_fit", f"no room for a state cache: {left}, one slot takes {slot / MIB:.2f} MiB", more
        )
    return Slots(count, slot, rest - (count + padding) * slot / GIB)
