"""The launcher of paged decode attention: the whole contract in words, the tiling, the chunks and the workspace.

`prepare` checks everything once, which reads lengths and table back; the Launch that it returns reads nothing back and
allocates nothing, so it can be called under a graph capture.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
import triton

from . import contract, tiling
from .contract import FORMATS, VECTOR, require
from .paged_decode import LOG2E, combine_kernel, decode_kernel


@dataclass(frozen=True, slots=True)
class Launch:
    """A decode step that was checked and has its workspace: calling it launches, reads nothing back, allocates nothing.

    Lengths and tables are read by the kernel, so they may change between calls, within `max_len` and the pool.
    """

    out: torch.Tensor
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]
    constants: dict[str, Any]
    tiling: tiling.Tiling
    splits: int
    partial: torch.Tensor = field(repr=False)
    lse: torch.Tensor = field(repr=False)

    def __call__(self) -> torch.Tensor:
        """Launch, and return `out` [requests, heads, value width]."""
        decode_kernel[self.grid](
            *self.arguments, **self.constants, num_warps=self.tiling.warps, num_stages=self.tiling.stages
        )
        if self.splits > 1:
            requests, heads, width = self.out.shape
            combine_kernel[(requests * heads,)](
                self.partial, self.lse, self.out, self.splits,
                WIDTH=width, PAD=triton.next_power_of_2(width), BLOCK=16, num_warps=4,
            )  # fmt: skip
        return self.out

    def over(self, pool: torch.Tensor) -> Launch:
        """Return the same launch on another pool, `k` of the same shape and strides with V at the same distance.

        Output and workspace are shared: for layers that run one after the other.
        """
        first = pool if pool.element_size() == 2 else pool.view(torch.int16)
        require(pool.data_ptr() % VECTOR == 0, f"pool: begins at an address that is no multiple of {VECTOR} bytes")
        require(first.dtype == self.arguments[1].dtype, f"pool: dtype {pool.dtype}")
        require(first.stride() == self.arguments[1].stride(), "pool: its strides are not those of the first")
        require(first.shape == self.arguments[1].shape, "pool: its shape is not that of the first")
        return replace(self, arguments=(self.arguments[0], first, *self.arguments[2:]))


def runs(words: int, least: int = 16) -> tuple[int, int]:
    """Return the widths of run a and run b of a row: the largest power of two, and one that holds the rest.

    Run b has at least `least` words: tensor cores take 16, and a tile of it should give each thread 16 bytes to load.
    """
    a = 1 << (words.bit_length() - 1)
    rest = words - a
    return a, (max(least, triton.next_power_of_2(rest)) if rest else 0)


def constants(
    *,
    chip: tiling.Chip,
    cut: tiling.Tiling,
    cache: torch.dtype,
    group: int,
    page: int,
    key: int,
    value: int,
    wide: bool,
    chunked: bool,
) -> dict[str, Any]:
    """Return the compile-time arguments of `decode_kernel`; `key` and `value` are head dims."""
    per_word = 2 // cache.itemsize
    least = max(16, cut.warps * 32 * VECTOR // (cut.tile * 2))
    (ka, kb), (va, vb) = runs(key // per_word, least), runs(value // per_word, least)
    return {
        "GROUP": group, "ROWS": max(16, min(cut.rows, triton.next_power_of_2(group))),
        "PAGE": page, "TILE": cut.tile, "STAGES": cut.stages,
        "KEY": key // per_word, "KA": ka, "KB": kb, "VALUE": value // per_word, "VA": va, "VB": vb,
        "FORMAT": FORMATS[cache], "CONVERT": FORMATS[cache] == "e4m3" and chip.converts_fp8,
        "WIDE": wide, "CHUNKED": chunked,
    }  # fmt: skip


def prepare(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None,
    table: torch.Tensor,
    lengths: torch.Tensor,
    *,
    scale: float,
    max_len: int | None = None,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    head_scales: torch.Tensor | None = None,
    latent: int = 0,
    sinks: torch.Tensor | None = None,
    softcap: float | None = None,
    window: int | None = None,
    chunked: bool = False,
    cut: tiling.Tiling | None = None,
    chunk: int | None = None,
    wide: bool = False,
) -> Launch:
    """Check everything, choose the tiling and the chunks, allocate the workspace; arguments as in `reference.decode`.

    k and v are views of one pool with equal strides (so V is at a constant distance), in any memory order of page,
    token and head. `max_len` is the longest length that later calls may bring; `wide` compiles for pools past 2**31
    elements though this one is smaller. Raises ContractError.
    """
    requests, heads, kv_heads, page, value = _check(
        q, k, v, table, lengths, head_scales=head_scales, latent=latent, sinks=sinks, window=window, chunked=chunked
    )
    longest = int(lengths.max()) if requests else 0
    most = longest if max_len is None else max_len
    require(most >= longest, f"max_len is {most}, but a request has {longest} tokens")
    require(most <= table.shape[1] * page, f"table: {table.shape[1]} pages of {page} hold no request of {most} tokens")
    _check_table(table, lengths, page=page, pages=k.shape[0], window=window, chunked=chunked)

    chip = tiling.chip_of(q.device)
    pool, values = (
        (k, v) if k.element_size() == 2 else (k.view(torch.int16), None if v is None else v.view(torch.int16))
    )
    cut = cut or tiling.choose(chip, words=pool.shape[3], latent=v is None)
    distance = 0 if values is None else (values.data_ptr() - pool.data_ptr()) // pool.element_size()
    extent = max(contract.reach(pool), 0 if values is None else distance + contract.reach(values))
    compiled = constants(
        chip=chip, cut=cut, cache=k.dtype, group=heads // kv_heads, page=page, key=q.shape[2], value=value,
        wide=extent > contract.INT32 or wide, chunked=chunked,
    )  # fmt: skip
    blocks = kv_heads * triton.cdiv(compiled["GROUP"], compiled["ROWS"])
    span = most if window is None else min(most, window + cut.tile)
    if chunk is None:
        tokens = min(requests * span, k.shape[0] * page)
        chunk = tiling.chunk_size(
            chip, tokens=tokens, longest=span, blocks=blocks, group=compiled["GROUP"], tile=cut.tile, latent=v is None
        )
    require(chunk % cut.tile == 0, f"chunk {chunk} is no multiple of the tile, {cut.tile} tokens")
    splits = max(1, triton.cdiv(span, chunk))
    require(max(blocks, requests) < 2**16, f"{requests} requests x {blocks} blocks of heads: a grid dim ends at 65,535")

    out = torch.empty(requests, heads, value, dtype=q.dtype, device=q.device)
    partial = out if splits == 1 else torch.empty(requests, heads, splits, value, device=q.device)
    lse = torch.empty(requests, heads, splits, device=q.device)
    # The shifts leave e4m3 2**8 too small, K and V alike
    fix = 256.0 if compiled["FORMAT"] == "e4m3" and not compiled["CONVERT"] else 1.0
    logit = scale * k_scale * fix * LOG2E.value
    arguments = (
        q, pool, table, lengths, sinks, head_scales, partial, lse,
        logit if softcap is None else 2 * logit / softcap, v_scale * fix,
        None if softcap is None else softcap * LOG2E.value,
        contract.vectors("q", q, 0), contract.vectors("q", q, 1), *(contract.vectors("k", k, dim) for dim in (0, 1, 2)),
        None if values is None else distance * pool.element_size() // VECTOR,
        table.stride(0), window, chunk, heads, splits,
    )  # fmt: skip
    return Launch(out, (splits, blocks, requests), arguments, compiled, cut, splits, partial, lse)


def decode(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor | None, table: torch.Tensor, lengths: torch.Tensor, **options: Any
) -> torch.Tensor:
    """Prepare and launch once; `prepare` names the options."""
    return prepare(q, k, v, table, lengths, **options)()


def _check(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor | None,
    table: torch.Tensor,
    lengths: torch.Tensor,
    *,
    head_scales: torch.Tensor | None,
    latent: int,
    sinks: torch.Tensor | None,
    window: int | None,
    chunked: bool,
) -> tuple[int, int, int, int, int]:
    """Hold the tensors to the contract; return requests, heads, KV heads, page size and value width."""
    contract.same_device(q=q, k=k, v=v, table=table, lengths=lengths, head_scales=head_scales, sinks=sinks)
    require(q.dim() == 3 and k.dim() == 4, f"q has {q.dim()} dims and k {k.dim()}, not 3 and 4")
    (requests, heads, dim), (_, page, kv_heads, key) = q.shape, k.shape
    require(dim == key, f"q has head dim {dim}, k has {key}")
    require(heads % kv_heads == 0, f"{heads} query heads do not divide among {kv_heads} KV heads")
    require(k.dtype in FORMATS, f"k: dtype {k.dtype} is none of {', '.join(map(str, FORMATS))}")
    require(q.dtype in (torch.bfloat16, torch.float16), f"q: dtype {q.dtype} is neither bfloat16 nor float16")
    require(k.element_size() == 1 or q.dtype == k.dtype, f"q is {q.dtype}, the cache {k.dtype}")
    for name, tensor in (("q", q), ("k", k)) if v is None else (("q", q), ("k", k), ("v", v)):
        contract.aligned(name, tensor)
    if v is None:
        value = latent
        require(latent in (key, runs(key)[0]), f"latent: {latent} of {key} dims is not the first run of a row")
        require(kv_heads == 1 or latent == key, f"a latent cache has one KV head, not {kv_heads}")
    else:
        value = v.shape[3]
        require(v.dtype == k.dtype and v.shape[:3] == k.shape[:3], "v: not of k's dtype, pages, page size and heads")
        require(v.stride() == k.stride(), f"v: strides {v.stride()}, but k has {k.stride()}")
        shared = v.untyped_storage().data_ptr() == k.untyped_storage().data_ptr()
        require(shared, "k and v are two allocations: they must be views of one pool")
    for name, width in (("k", key), ("v", value)):
        words = width * k.element_size() // 2
        require(words >= 16, f"{name}: rows of {width} dims are less than 16 words")
        require(width * k.element_size() % VECTOR == 0, f"{name}: rows of {width} dims are no multiple of 16 bytes")
    require(table.dtype == torch.int32 and table.dim() == 2, "table: not int32 [requests, pages]")
    require(lengths.dtype == torch.int32 and lengths.dim() == 1, "lengths: not int32 [requests]")
    require(len(table) == len(lengths) == requests, f"{requests} queries, {len(table)} tables, {len(lengths)} lengths")
    require(table.stride(1) == 1 and lengths.is_contiguous(), "table and lengths: rows must be contiguous")
    require(window is None or window > 0, f"window: {window} tokens")
    require(window is not None or not chunked, "chunked attention needs a window: the tokens of a chunk")
    if head_scales is not None:
        fits = head_scales.shape == (2, kv_heads) and head_scales.dtype == torch.float32
        require(fits and head_scales.is_contiguous(), "head_scales: not contiguous float32 [2, kv_heads]")
    if sinks is not None:
        require(sinks.shape == (heads,) and sinks.is_contiguous(), "sinks: not contiguous [heads]")
    return requests, heads, kv_heads, page, value


def _check_table(
    table: torch.Tensor, lengths: torch.Tensor, *, page: int, pages: int, window: int | None, chunked: bool
) -> None:
    """Refuse page ids that a program would read and the pool does not have; ids outside windows may be anything."""
    column = torch.arange(table.shape[1], device=table.device)[None, :]
    first = torch.zeros_like(lengths)
    if window is not None:
        first = (lengths - 1).clamp(0) // window * window if chunked else (lengths - window).clamp(0)
    used = (column >= first[:, None] // page) & (column * page < lengths[:, None])
    contract.in_range("table", table[used], pages)
