"""What the kernels compute, as definitions in float64: slow, plain, on a CPU, and read before any kernel.

A cache is indexed [page, slot, head, dim] whatever its memory order is (HND caches come in as transposed views).
"""

from __future__ import annotations

import math

import torch


def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None,
    table: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    head_scales: torch.Tensor | None = None,
    latent: int = 0,
    sinks: torch.Tensor | None = None,
    softcap: float | None = None,
    window: int | None = None,
    chunked: bool = False,
) -> torch.Tensor:
    """Attention of one new token a request over its cached context; returns [requests, heads, value width].

    q [requests, heads, D]; k [pages, page, kv_heads, D], v likewise with its own width; table [requests, pages of the
    longest], lengths [requests]. Query head h reads KV head h // (heads / kv_heads). `v` None: the first `latent`
    columns of the key are the value (MLA). `head_scales` [2, kv_heads] multiplies K and V by head, beside `k_scale` and
    `v_scale`. `sinks` [heads]: a logit that takes part in the softmax and has no value. `softcap` c: logits become
    c * tanh(logit / c). `window` w: the last w tokens only; `chunked`: the tokens of the last chunk of w instead.
    """
    heads, kv_heads, page = q.shape[1], k.shape[2], k.shape[1]
    by_head = torch.ones(2, kv_heads) if head_scales is None else head_scales.cpu()
    k_factor, v_factor = (by_head.double() * torch.tensor([[k_scale], [v_scale]], dtype=torch.float64))[:, :, None]
    rows = []
    for request, length in enumerate(lengths.tolist()):
        first = 0 if window is None else (length - 1) // window * window if chunked else max(length - window, 0)
        pages = range(first // page, math.ceil(length / page))
        ids = table[request, pages.start : pages.stop].long().cpu()
        seen = slice(first - pages.start * page, length - pages.start * page)
        keys = k[ids.to(k.device)].cpu().double().flatten(0, 1)[seen]
        values = keys[..., :latent] if v is None else v[ids.to(v.device)].cpu().double().flatten(0, 1)[seen]
        keys, values = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (keys * k_factor, values * v_factor))
        logits = torch.einsum("hd,thd->ht", q[request].cpu().double(), keys) * scale
        if softcap is not None:
            logits = softcap * torch.tanh(logits / softcap)
        if sinks is not None:
            logits = torch.cat([logits, sinks.cpu().double()[:, None]], dim=1)
        weights = logits.softmax(dim=1)[:, : keys.shape[0]]
        rows.append(torch.einsum("ht,thd->hd", weights, values))
    return torch.stack(rows)


def worst_row(out: torch.Tensor, truth: torch.Tensor) -> float:
    """Return the largest relative L2 error of any (request, head) row.

    Not the pooled norm: outputs shrink as 1 / sqrt(length), so one short request would hide the long ones.
    """
    error = (out.cpu().double() - truth).norm(dim=-1)
    return float((error / truth.norm(dim=-1)).nan_to_num(nan=float("inf")).max())


def write(rows: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor, *, scale: float = 1.0) -> None:
    """Store rows [tokens, heads, D] into the cache at slots [tokens], in place; slot -1 is padding.

    Values are divided by `scale`, clamped to what the cache's dtype holds, and rounded to nearest, ties to even.
    """
    page = cache.shape[1]
    values = rows.float() / scale
    if cache.element_size() == 1:
        limit = torch.finfo(cache.dtype).max
        values = values.clamp(-limit, limit)
    for value, slot in zip(values.to(cache.dtype), slots.tolist(), strict=True):
        if slot >= 0:
            cache[slot // page, slot % page] = value


def copy_pages(pool: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy whole pages of pool [pages, ...] from `source` ids to `target` ids, in place."""
    pool[target.long()] = pool[source.long()]


def pattern(words: torch.Tensor, salt: int, mask: int, base: int) -> torch.Tensor:
    """Return the 32-bit words (as int32) that a fill with `salt` leaves at word indices [...] of a buffer."""
    low, high = words & 0xFFFFFFFF, words >> 32
    x = low ^ ((high * 0x9E3779B9 + salt) & 0xFFFFFFFF)
    x = (x ^ (x >> 16)) * 0x7FEB352D & 0xFFFFFFFF
    x = (x ^ (x >> 15)) * 0x846CA68B & 0xFFFFFFFF
    x ^= x >> 16
    word = (x & mask) | base
    return torch.where(word >= 2**31, word - 2**32, word).int()
