"""Paged decode attention: one kernel for every cache that keeps one row a token, and one that joins its chunks.

The idea that serves every variant: a cached row is read as 16-bit words in one or two runs, powers of two both.

    bf16, fp16, D = 64, 128, 256     run a = the row
    D = 80, 96, 192                  run a = the largest power of two, run b = the rest, its loads masked to what is there
    MLA, 512 + 64                    run a = latent, key and value at once; run b = rope, key only
    fp8                              a word holds two dims: unpacked exactly to fp16, a tile of even and one of odd dims

fp8 is read as words because tensor cores take their operands through transposing 16-bit shared-memory loads, which
8-bit data lacks: read as bytes, V costs 64 one-byte loads a thread and tile. Arithmetic is in fp16, which holds every
e4m3 and e5m2 value; the scales are folded into the softmax scale and the epilogue, so no element is ever scaled.

Work is cut into chunks of one size, so skewed lengths balance themselves; a program whose chunk is empty ends at once.
The grid depends on maxima only, and nothing is read back: a launch can be captured in a CUDA graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
import triton.language as tl

from . import contract, tiling
from .contract import VECTOR, require

LOG2E = tl.constexpr(1.4426950408889634)
VEC = tl.constexpr(VECTOR // 2)  # words in 16 bytes


@triton.jit
def _row(row, seen, WORDS: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """Load the rows that begin at `row` [TILE] as run a [TILE, A] and run b [TILE, B]; without a b, a serves as both."""
    a = tl.load(row[:, None] + tl.arange(0, A)[None, :], mask=seen[:, None], other=0)
    b = a
    if B > 0:
        col = A + tl.arange(0, B)[None, :]
        b = tl.load(row[:, None] + col, mask=seen[:, None] & (col < WORDS), other=0)
    return a, b


@triton.jit
def _unpack(words, FORMAT: tl.constexpr, CONVERT: tl.constexpr):
    """Turn words into numbers: themselves, or the even and the odd dims of fp8 in fp16.

    By shifts, e4m3's bits s.eeee.mmm land in fp16 as they are, 2**8 too small (the biases are 7 and 15), which the
    scales make good; e5m2 is the upper half of fp16. sm_89 and newer convert a word in one instruction.
    """
    even, odd = words, words
    if FORMAT == "e4m3":
        if CONVERT:
            even, odd = tl.inline_asm_elementwise(
                "{ .reg .b32 pair; cvt.rn.f16x2.e4m3x2 pair, $2; mov.b32 {$0, $1}, pair; }", "=h,=h,h", [words],
                dtype=(tl.float16, tl.float16), is_pure=True, pack=1,
            )  # fmt: skip
        else:
            even = (((words << 8) >> 1) & -16512).to(tl.float16, bitcast=True)  # -16512 = 0xBF80: sign, eeee.mmm
            odd = ((words >> 1) & -16512).to(tl.float16, bitcast=True)
    elif FORMAT == "e5m2":
        even = (words << 8).to(tl.float16, bitcast=True)
        odd = (words & -256).to(tl.float16, bitcast=True)
    return even, odd


@triton.jit
def _against(even_q, odd_q, words, scores, FORMAT: tl.constexpr, CONVERT: tl.constexpr):
    """Add q . k over one run of the key to the scores [ROWS, TILE]."""
    even, odd = _unpack(words, FORMAT, CONVERT)
    scores = tl.dot(even_q, even.T, scores)
    if FORMAT != "half":
        scores = tl.dot(odd_q, odd.T, scores)
    return scores


@triton.jit
def _weigh(p, words, fade, even_acc, odd_acc, FORMAT: tl.constexpr, CONVERT: tl.constexpr):
    """Fade what was gathered so far and add p . v over one run of the value."""
    even, odd = _unpack(words, FORMAT, CONVERT)
    even_acc = tl.dot(p, even, even_acc * fade[:, None])
    if FORMAT != "half":
        odd_acc = tl.dot(p, odd, odd_acc * fade[:, None])
    return even_acc, odd_acc


@triton.jit
def _query(row, live, first, limit, WIDTH: tl.constexpr, FORMAT: tl.constexpr):
    """Load the dims of q [ROWS, ...] that face one run of words [first, first + WIDTH): evens and odds, or all twice."""
    word = first + tl.arange(0, WIDTH)[None, :]
    mask = live & (word < limit)
    if FORMAT == "half":
        even = tl.load(row + word, mask=mask, other=0.0)
        odd = even
    else:
        even = tl.load(row + word * 2, mask=mask, other=0.0).to(tl.float16)
        odd = tl.load(row + word * 2 + 1, mask=mask, other=0.0).to(tl.float16)
    return even, odd


@triton.jit
def _store(row, live, first, limit, even, odd, WIDTH: tl.constexpr, FORMAT: tl.constexpr):
    """Store one run of the output, the counterpart of `_query`."""
    word = first + tl.arange(0, WIDTH)[None, :]
    mask = live & (word < limit)
    kind = row.dtype.element_ty
    if FORMAT == "half":
        tl.store(row + word, even.to(kind), mask=mask)
    else:
        tl.store(row + word * 2, even.to(kind), mask=mask)
        tl.store(row + word * 2 + 1, odd.to(kind), mask=mask)


# A scalar that happens to be 1 or a multiple of 16 would compile a variant of its own, at worst during a graph capture
@triton.jit(
    do_not_specialize=[
        "q_req", "q_head", "page_vecs", "token_vecs", "head_vecs", "v_vecs", "table_req", "span", "chunk", "heads",
        "splits",
    ]
)  # fmt: skip
def decode_kernel(
    q_ptr, pool_ptr, table_ptr, len_ptr, sink_ptr, scale_ptr, out_ptr, lse_ptr,
    qk_scale, v_scale, softcap,
    q_req, q_head, page_vecs, token_vecs, head_vecs, v_vecs, table_req, span, chunk, heads, splits,
    GROUP: tl.constexpr, ROWS: tl.constexpr, PAGE: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr,
    KEY: tl.constexpr, KA: tl.constexpr, KB: tl.constexpr, VALUE: tl.constexpr, VA: tl.constexpr, VB: tl.constexpr,
    FORMAT: tl.constexpr, CONVERT: tl.constexpr, WIDE: tl.constexpr, CHUNKED: tl.constexpr,
):  # fmt: skip
    """Softmax over one chunk of one request's context, for up to ROWS query heads that share a KV head.

    q [requests, heads, D]; table [requests, pages]; lengths [requests]; out [requests, heads, splits, value] with its
    base-2 log-sum-exp in lse. Strides of the pool are in 16-byte vectors; V lies `v_vecs` behind K. None switches a
    feature off at compile time: sinks, per-head scales, softcap, span (window or, if CHUNKED, chunk of local
    attention), and v_vecs (the value is the key's run a: MLA).
    """
    split, block, req = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    BLOCKS: tl.constexpr = (GROUP + ROWS - 1) // ROWS
    kv_head = block // BLOCKS
    length = tl.load(len_ptr + req)
    lo = 0
    if span is not None:
        lo = tl.maximum(length - 1, 0) // span * span if CHUNKED else tl.maximum(length - span, 0)
    first = lo // TILE * TILE + split * chunk
    last = tl.minimum(first + chunk, length)

    member = block % BLOCKS * ROWS + tl.arange(0, ROWS)
    head = kv_head * GROUP + member
    slot = (req * heads + head) * splits + split
    if (split > 0) & (first >= last):  # chunk 0 always runs: it writes the zeros of an empty request
        tl.store(lse_ptr + slot, float("-inf"), mask=member < GROUP)
        return

    live = (member < GROUP)[:, None]
    q_row = (q_ptr + req * q_req + head * q_head)[:, None]
    qa, qa_odd = _query(q_row, live, 0, KEY, KA, FORMAT)
    acc_a = tl.zeros([ROWS, VA], tl.float32)
    acc_a_odd = tl.zeros([ROWS, VA], tl.float32)
    if KB > 0:
        qb, qb_odd = _query(q_row, live, KA, KEY, KB, FORMAT)
    if VB > 0:
        acc_b = tl.zeros([ROWS, VB], tl.float32)
        acc_b_odd = tl.zeros([ROWS, VB], tl.float32)
    if scale_ptr is not None:
        qk_scale *= tl.load(scale_ptr + kv_head)
        v_scale *= tl.load(scale_ptr + heads // GROUP + kv_head)

    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    if sink_ptr is not None:  # one logit without a value; chunk 0 speaks for it
        sink = tl.load(sink_ptr + head, mask=member < GROUP, other=0.0).to(tl.float32) * LOG2E
        top = tl.where(split == 0, sink, top)
        total = tl.where(split == 0, 1.0, total)

    pages = table_ptr + req * table_req
    page_words, v_words = page_vecs, v_vecs
    if WIDE:  # element offsets past 2**31: only the page and the way from K to V can be that far
        page_words = page_vecs.to(tl.int64)
        if v_vecs is not None:
            v_words = v_vecs.to(tl.int64)
    here = pool_ptr + kv_head * (head_vecs * VEC)
    for start in tl.range(first, last, TILE, num_stages=STAGES):
        t = start + tl.arange(0, TILE)
        seen = (t >= lo) & (t < last)
        page = tl.load(pages + t // PAGE, mask=seen, other=0)
        row = here + page * (page_words * VEC) + t % PAGE * (token_vecs * VEC)
        ka, kb = _row(row, seen, KEY, KA, KB)
        s = _against(qa, qa_odd, ka, tl.zeros([ROWS, TILE], tl.float32), FORMAT, CONVERT)
        if KB > 0:
            s = _against(qb, qb_odd, kb, s, FORMAT, CONVERT)
        s *= qk_scale
        if softcap is not None:  # s is 2 log2(e) logit / c, so this is log2(e) c tanh(logit / c)
            s = softcap - 2 * softcap / (tl.exp2(s) + 1)
        s = tl.where(seen[None, :], s, float("-inf"))
        peak = tl.maximum(top, tl.max(s, 1))
        base = tl.where(peak > float("-inf"), peak, 0.0)  # no token seen yet: exp2(-inf - -inf) would be NaN
        p = tl.exp2(s - base[:, None])
        fade = tl.exp2(top - base)
        total = total * fade + tl.sum(p, 1)
        if v_vecs is None:
            va, vb = ka, kb
        else:
            va, vb = _row(row + v_words * VEC, seen, VALUE, VA, VB)
        p = p.to(qa.dtype)
        acc_a, acc_a_odd = _weigh(p, va, fade, acc_a, acc_a_odd, FORMAT, CONVERT)
        if VB > 0:
            acc_b, acc_b_odd = _weigh(p, vb, fade, acc_b, acc_b_odd, FORMAT, CONVERT)
        top = peak

    norm = (v_scale / tl.where(total > 0, total, 1.0))[:, None]
    width: tl.constexpr = VALUE if FORMAT == "half" else 2 * VALUE
    out_row = (out_ptr + slot * width)[:, None]
    _store(out_row, live, 0, VALUE, acc_a * norm, acc_a_odd * norm, VA, FORMAT)
    if VB > 0:
        _store(out_row, live, VA, VALUE, acc_b * norm, acc_b_odd * norm, VB, FORMAT)
    tl.store(lse_ptr + slot, tl.where(total > 0, top + tl.log2(total), float("-inf")), mask=member < GROUP)


@triton.jit(do_not_specialize=["splits"])
def combine_kernel(
    part_ptr, lse_ptr, out_ptr, splits, WIDTH: tl.constexpr, PAD: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Weigh the chunks' outputs by their log-sum-exp; one program a (request, head).

    part [rows, splits, WIDTH] float32, lse [rows, splits], out [rows, WIDTH]. Empty chunks weigh nothing and are not
    read: nobody wrote them.
    """
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, PAD)
    top = float("-inf")
    total = 0.0
    acc = tl.zeros([PAD], tl.float32)
    for start in tl.range(0, splits, BLOCK):
        s = start + tl.arange(0, BLOCK)
        lse = tl.load(lse_ptr + row * splits + s, mask=s < splits, other=float("-inf"))
        peak = tl.maximum(top, tl.max(lse, 0))
        base = tl.where(peak > float("-inf"), peak, 0.0)
        weight = tl.exp2(lse - base)
        fade = tl.exp2(top - base)
        used = (weight > 0)[:, None] & (d < WIDTH)[None, :]
        part = tl.load(part_ptr + (row * splits + s)[:, None] * WIDTH + d[None, :], mask=used, other=0.0)
        acc = acc * fade + tl.sum(part * weight[:, None], 0)
        total = total * fade + tl.sum(weight, 0)
        top = peak
    out = acc / tl.where(total > 0, total, 1.0)
    tl.store(out_ptr + row * WIDTH + d, out.to(out_ptr.dtype.element_ty), mask=d < WIDTH)


FORMATS = {
    torch.bfloat16: "half",
    torch.float16: "half",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
}


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


def runs(words: int) -> tuple[int, int]:
    """Return the widths of run a and run b of a row: the largest power of two, and what holds the rest (16 at least)."""
    a = 1 << (words.bit_length() - 1)
    rest = words - a
    return a, (max(16, triton.next_power_of_2(rest)) if rest else 0)


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
    (ka, kb), (va, vb) = runs(key // per_word), runs(value // per_word)
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
) -> Launch:
    """Check everything, choose the tiling and the chunks, allocate the workspace; arguments as in `reference.decode`.

    k and v are views of one pool with equal strides (so V is at a constant distance), in any memory order of page,
    token and head. `max_len` is the longest length that later calls may bring. Raises ContractError.
    """
    requests, heads, kv_heads, page, value = _check(
        q, k, v, table, lengths, head_scales=head_scales, latent=latent, sinks=sinks, window=window, chunked=chunked
    )
    longest = int(lengths.max()) if requests else 0
    most = longest if max_len is None else max_len
    require(most >= longest, f"max_len is {most}, but a request has {longest} tokens")
    require(most <= table.shape[1] * page, f"table: {table.shape[1]} pages of {page} hold no request of {most} tokens")
    _check_table(table, lengths, page=page, pages=k.shape[0], window=window, chunked=chunked)

    chip, fp8 = tiling.chip_of(q.device), k.element_size() == 1
    pool, values = (k, v) if not fp8 else (k.view(torch.int16), None if v is None else v.view(torch.int16))
    cut = cut or tiling.choose(chip, words=pool.shape[3], latent=v is None, fp8=fp8)
    distance = 0 if values is None else (values.data_ptr() - pool.data_ptr()) // pool.element_size()
    extent = max(contract.reach(pool), 0 if values is None else distance + contract.reach(values))
    compiled = constants(
        chip=chip, cut=cut, cache=k.dtype, group=heads // kv_heads, page=page, key=q.shape[2], value=value,
        wide=extent >= contract.INT32, chunked=chunked,
    )  # fmt: skip
    blocks = kv_heads * triton.cdiv(compiled["GROUP"], compiled["ROWS"])
    span = most if window is None else min(most, window + cut.tile)
    if chunk is None:
        tokens = min(requests * span, k.shape[0] * page)
        chunk = tiling.chunk_size(
            chip, tokens=tokens, longest=span, blocks=blocks, tile=cut.tile, latent=v is None
        )  # fmt: skip
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
        q.stride(0), q.stride(1), *(contract.vectors("k", k, dim) for dim in (0, 1, 2)),
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
