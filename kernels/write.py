"""Write new tokens into a paged cache, and copy whole pages: what an engine does to a cache beside reading it.

Values are rounded to fp8 with integers, the same on every chip and bit for bit as torch rounds: sm_80 has no e4m3
conversion at all, sm_89 rounds twice on the way through fp16, and only sm_90 would do it in one instruction. Three
operations an element are nothing beside the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from . import contract
from .contract import FORMATS, VECTOR, require

VEC = tl.constexpr(VECTOR)


@triton.jit
def _to_fp8(x, MANTISSA: tl.constexpr, BIAS: tl.constexpr, LIMIT: tl.constexpr, NAN: tl.constexpr):
    """Round float32 to the byte of an fp8 format: clamp to what is finite, then to nearest, ties to even.

    Normal numbers: add just under half of the last kept bit, and one more where that bit is odd, so that a carry runs
    into the exponent as it should. Below the smallest normal: adding 2**(24 - BIAS - MANTISSA) leaves the float32
    adder to round at the step of the subnormals, and the low bits of the sum are the answer.
    """
    SHIFT: tl.constexpr = 23 - MANTISSA
    MAGIC: tl.constexpr = 1 << (24 - BIAS - MANTISSA)
    size = tl.minimum(tl.abs(x), LIMIT)
    bits = size.to(tl.int32, bitcast=True)
    normal = (bits + ((1 << (SHIFT - 1)) - 1) + ((bits >> SHIFT) & 1) >> SHIFT) - ((127 - BIAS) << MANTISSA)
    small = (size + MAGIC).to(tl.int32, bitcast=True) & 0xFF
    byte = tl.where(size < 2.0 ** (1 - BIAS), small, normal)
    byte = tl.where(x == x, byte, NAN)  # noqa: PLR0124  # false for NaN alone
    return (byte | ((x.to(tl.int32, bitcast=True) >> 24) & 0x80)).to(tl.int8)


@triton.jit(do_not_specialize=["src_token_vecs", "src_head_vecs", "page_vecs", "token_vecs", "head_vecs", "heads"])
def write_kernel(
    src_ptr, cache_ptr, slot_ptr, scale,
    src_token_vecs, src_head_vecs, page_vecs, token_vecs, head_vecs, heads,
    DIM: tl.constexpr, HEADS: tl.constexpr, PAD: tl.constexpr, PAGE: tl.constexpr, FORMAT: tl.constexpr,
):  # fmt: skip
    """Store one token's rows [heads, DIM] at its slot; slot -1 is padding. The cache is seen as its own elements."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_ptr + token).to(tl.int64)
    if slot < 0:
        return
    h = tl.arange(0, HEADS)[:, None]
    d = tl.arange(0, PAD)[None, :]
    here = (h < heads) & (d < DIM)
    source = src_ptr + token * (src_token_vecs * (VEC // 2)) + h * (src_head_vecs * (VEC // 2))
    x = tl.load(source + d, mask=here, other=0.0)
    PER_VEC: tl.constexpr = VEC // 2 if FORMAT == "half" else VEC
    row = cache_ptr + h * (head_vecs.to(tl.int64) * PER_VEC)  # offsets are 64 bits wide: pools pass 2**31 elements
    row += slot // PAGE * (page_vecs * PER_VEC) + slot % PAGE * (token_vecs.to(tl.int64) * PER_VEC)
    if FORMAT == "half":
        tl.store(row + d, x, mask=here)
    else:
        x = tl.div_rn(x.to(tl.float32), scale)
        byte = _to_fp8(x, 3, 7, 448.0, 0x7F) if FORMAT == "e4m3" else _to_fp8(x, 2, 15, 57344.0, 0x7F)
        tl.store(row + d, byte, mask=here)


@triton.jit(do_not_specialize=["page_vecs"])
def copy_kernel(base_ptr, source_ptr, target_ptr, page_vecs, BLOCK: tl.constexpr):
    """Copy page source[i] to page target[i] in every buffer of base [buffers], addresses of int32 words."""
    pair, block, buffer = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    words = tl.load(base_ptr + buffer).to(tl.pointer_type(tl.int32))
    words = tl.multiple_of(words, 16)
    source = tl.load(source_ptr + pair).to(tl.int64) * (page_vecs * 4)
    target = tl.load(target_ptr + pair).to(tl.int64) * (page_vecs * 4)
    i = block * BLOCK + tl.arange(0, BLOCK)
    here = i < page_vecs * 4
    tl.store(words + target + i, tl.load(words + source + i, mask=here), mask=here)


def write(rows: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor, *, scale: float = 1.0) -> None:
    """Store rows [tokens, heads, D] into cache [pages, page, heads, D] (any memory order) at slots [tokens].

    Slot s is place s % page of page s // page, -1 is padding. An fp8 cache takes values divided by `scale`. Raises
    ContractError; reads the slots back to check them, so not under a graph capture.
    """
    contract.same_device(rows=rows, cache=cache, slots=slots)
    require(rows.dim() == 3 and cache.dim() == 4, f"rows has {rows.dim()} dims and cache {cache.dim()}, not 3 and 4")
    (tokens, heads, dim), (pages, page) = rows.shape, cache.shape[:2]
    require(cache.shape[2:] == (heads, dim), f"rows hold {heads} x {dim} a token, the cache {tuple(cache.shape[2:])}")
    require(cache.dtype in FORMATS, f"cache: dtype {cache.dtype} is none of {', '.join(map(str, FORMATS))}")
    kind = FORMATS[cache.dtype]
    require(rows.dtype in (torch.bfloat16, torch.float16), f"rows: dtype {rows.dtype} is neither bfloat16 nor float16")
    require(kind != "half" or rows.dtype == cache.dtype, f"rows are {rows.dtype}, the cache {cache.dtype}")
    require(kind != "half" or scale == 1.0, f"scale {scale}: only fp8 caches are scaled")
    require(slots.shape == (tokens,) and slots.is_contiguous(), "slots: not contiguous [tokens]")
    require(slots.dtype in (torch.int32, torch.int64), f"slots: dtype {slots.dtype}")
    contract.aligned("rows", rows)
    contract.aligned("cache", cache)
    contract.in_range("slots", slots, pages * page, least=-1)
    strides = [contract.vectors("cache", cache, axis) for axis in (0, 1, 2)]
    padded = triton.next_power_of_2(dim) * triton.next_power_of_2(heads)
    warps = max(1, min(8, padded * cache.element_size() // (32 * VECTOR)))  # 16 bytes a thread
    write_kernel[(tokens,)](
        rows, cache if kind == "half" else cache.view(torch.int8), slots, scale,
        contract.vectors("rows", rows, 0), contract.vectors("rows", rows, 1), *strides, heads,
        DIM=dim, HEADS=triton.next_power_of_2(heads), PAD=triton.next_power_of_2(dim), PAGE=page, FORMAT=kind,
        num_warps=warps,
    )  # fmt: skip


def copy_pages(pools: Sequence[torch.Tensor], source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy pages in every pool [pages, ...] (contiguous, pages of one size) from `source` to `target` ids, one launch.

    What copy-on-write does when a request appends to a page that others share. Raises ContractError; reads the ids
    back to check them: a page that is copied twice over, or that is source and target at once, would be a race.
    """
    require(len(pools) > 0, "no pools")
    pages, size = pools[0].shape[0], pools[0][0].numel() * pools[0].element_size()
    for pool in pools:
        contract.same_device(pool=pool, source=source, target=target)
        contract.aligned("pool", pool)
        require(pool.is_contiguous(), "pool: not contiguous")
        require((pool.shape[0], pool[0].numel() * pool.element_size()) == (pages, size), "pools: pages differ")
    require(size % VECTOR == 0, f"pool: pages of {size} bytes are no multiple of {VECTOR}")
    for name, ids in (("source", source), ("target", target)):
        require(ids.dtype == torch.int32 and ids.is_contiguous() and ids.dim() == 1, f"{name}: not int32 [pairs]")
        contract.in_range(name, ids, pages)
    require(len(source) == len(target), f"{len(source)} sources, {len(target)} targets")
    require(len(target.unique()) == len(target), "target: a page is written twice")
    require(not bool(torch.isin(source, target).any()), "a page is source and target at once")
    if len(source) == 0:
        return
    base = torch.tensor([pool.data_ptr() for pool in pools], dtype=torch.int64, device=source.device)
    block = 1024
    grid = (len(source), triton.cdiv(size // 4, block), len(pools))
    copy_kernel[grid](base, source, target, size // VECTOR, BLOCK=block, num_warps=4)
