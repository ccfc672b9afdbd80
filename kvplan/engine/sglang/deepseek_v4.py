"""DeepSeek-V4's pools: whole-length tokens, windows of latents, two compressed caches and their states.

Source: SGLang 0.5.23, model_executor/pool_configurator.py (DSV4PoolConfigurator), mem_cache/deepseek_v4_memory_pool.py.
"""

from __future__ import annotations

from kvplan.engine.sglang.pools import Pool, Pools, check_window
from kvplan.engine.sglang.settings import Settings
from kvplan.model.spec import CompressedLatent
from kvplan.record import dataclass

_STATE_ITEM = 4  # float32
_PAGE_UNIT = 576  # FlashMLA's pages are padded to whole units of this many bytes
_FEW, _MANY = 4, 128  # the ratios that have states of their own
_RINGS = {_FEW: (8, 16), _MANY: (128, 256)}  # positions of a state ring, without and with drafts
_REQUESTS = (2048, 4096)  # bounds of the estimate where no limit is given


@dataclass(frozen=True, slots=True)
class Geometry:
    """The layers by ratio, bytes of a window token and of a whole-length one, and the rings of states."""

    layers: int
    few: int
    many: int
    head_dim: int
    window: int
    window_bytes: float
    token_bytes: float
    rings: tuple[int, int]


def geometry(caches: tuple[CompressedLatent, ...], settings: Settings) -> Geometry:
    """Return the bytes of every pool's token, all layers together; drafts add one layer's worth."""
    first = caches[0]
    page, drafting = settings.backend.page_size, settings.drafts is not None
    few = sum(cache.ratio == _FEW for cache in caches)
    many = sum(cache.ratio == _MANY for cache in caches)
    index = next((cache.index_head_dim for cache in caches if cache.index_head_dim is not None), 0)
    row = (first.head_dim - first.rope_dim) + 2 * first.rope_dim + 8
    rings = (_RINGS[_FEW][drafting], _RINGS[_MANY][drafting])
    states = 2 * 2 * (first.head_dim + index) * _STATE_ITEM
    window = _paged(row, page) * len(caches) + rings[0] / page * states * few
    indexed = index + index // 128 * 4
    compressed = (_paged(row, page // _FEW) / _FEW + indexed / _FEW) * few + _paged(row, page // _MANY) / _MANY * many
    token = settings.window_ratio * window + compressed
    scale = (len(caches) + 1) / len(caches) if drafting else 1.0
    return Geometry(len(caches), few, many, first.head_dim, first.window, window * scale, token * scale, rings)


def _paged(row: int, page: int) -> float:
    """Return the bytes of a row once its page is padded."""
    return -(-row * page // _PAGE_UNIT) * _PAGE_UNIT / page


def compressed_pools(found: Geometry, settings: Settings, available: int, context: int, cap: int | None) -> Pools:
    """Return the pools that fit `available` bytes; the states of the long ratio are held for each request slot."""
    page = settings.backend.page_size
    left = max(available - _fixed(found, _slots(found, settings, available, context)), 0)
    tokens = int(left / found.token_bytes) // page * page
    if cap is not None and cap < tokens:
        tokens = cap // page * page
    window = int(tokens * settings.window_ratio) // page * page
    check_window(window, found.window, page)
    return Pools(
        tokens,
        (
            Pool(
                "full", tokens, found.token_bytes - settings.window_ratio * found.window_bytes, found.few + found.many
            ),
            Pool("window", window, found.window_bytes, found.layers),
            Pool("compressed_4", tokens // _FEW, 0, found.few),
            Pool("compressed_128", tokens // _MANY, 0, found.many),
            Pool("state_4", window // page * found.rings[0], 0, found.few),
        ),
    )


def request_states(found: Geometry, requests: int) -> Pool:
    """Return the pool of long-ratio states of so many running requests, one slot more for padding."""
    return Pool("state_128", (requests + 1) * found.rings[1], 0, found.many)


def _slots(found: Geometry, settings: Settings, available: int, context: int) -> int:
    if settings.requests is not None:
        return max(1, settings.requests // settings.attention_dp) + 1
    tokens = int(available / found.token_bytes)
    low, high = _REQUESTS
    return min(max(min(int(tokens / context * 512), high), low), tokens // 2) + 1


def _fixed(found: Geometry, slots: int) -> int:
    if not found.many:
        return 0
    ring = found.rings[1]
    rows = -(-(slots * ring + ring + 1) // 128) * 128
    return rows * 2 * found.head_dim * _STATE_ITEM * found.many
