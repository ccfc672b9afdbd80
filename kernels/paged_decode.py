"""Paged decode attention: one kernel for every cache that keeps one row a token, and one that joins its chunks.

The idea that serves every variant: a cached row is read as 16-bit words in one or two runs, powers of two both.

    bf16, fp16, D = 64, 128, 256     run a = the row
    D = 80, 96, 192                  run a = the largest power of two, run b = the rest, masked to what is there
    MLA, 512 + 64                    run a = latent, key and value at once; run b = rope, key only
    fp8                              a word holds two dims: unpacked exactly to fp16, a tile of even and one of odd dims

fp8 is read as words because tensor cores take their operands through transposing 16-bit shared-memory loads, which
8-bit data lacks: read as bytes, V costs 64 one-byte loads a thread and tile. Arithmetic is in fp16, which holds every
e4m3 and e5m2 value; the scales are folded into the softmax scale and the epilogue, so no element is ever scaled.

Work is cut into chunks of one size, so skewed lengths balance themselves; a program whose chunk is empty ends at once.
The grid depends on maxima only, and nothing is read back: a launch can be captured in a CUDA graph. `paged_launch` is
the launcher.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .contract import VECTOR

LOG2E = tl.constexpr(1.4426950408889634)
VEC = tl.constexpr(VECTOR // 2)  # words in 16 bytes


@triton.jit
def _row(row, seen, WORDS: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """Load the rows that begin at `row` [TILE] as run a [TILE, A] and run b [TILE, B], which is a where B is 0."""
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
    """Load the dims of q [ROWS, ...] that face the words [first, first + WIDTH): evens and odds, or all twice."""
    PER_WORD: tl.constexpr = 1 if FORMAT == "half" else 2
    dim = first * PER_WORD + tl.arange(0, WIDTH * PER_WORD)[None, :]
    q = tl.load(row + dim, mask=live & (dim < limit * PER_WORD), other=0.0)
    even, odd = q, q
    if FORMAT != "half":
        even, odd = tl.split(q.to(tl.float16).reshape(q.shape[0], WIDTH, 2))
    return even, odd


@triton.jit
def _store(row, live, first, limit, even, odd, WIDTH: tl.constexpr, FORMAT: tl.constexpr):
    """Store one run of the output, the counterpart of `_query`."""
    PER_WORD: tl.constexpr = 1 if FORMAT == "half" else 2
    dim = first * PER_WORD + tl.arange(0, WIDTH * PER_WORD)[None, :]
    out = even if FORMAT == "half" else tl.interleave(even, odd)
    tl.store(row + dim, out.to(row.dtype.element_ty), mask=live & (dim < limit * PER_WORD))


# A scalar that happens to be 1 or a multiple of 16 would compile a variant of its own, at worst during a graph capture
@triton.jit(
    do_not_specialize=[
        "q_req_vecs", "q_head_vecs", "page_vecs", "token_vecs", "head_vecs", "v_vecs", "table_req", "span", "chunk",
        "heads", "splits",
    ]
)  # fmt: skip
def decode_kernel(
    q_ptr, pool_ptr, table_ptr, len_ptr, sink_ptr, scale_ptr, out_ptr, lse_ptr,
    qk_scale, v_scale, softcap,
    q_req_vecs, q_head_vecs, page_vecs, token_vecs, head_vecs, v_vecs, table_req, span, chunk, heads, splits,
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
    q_row = (q_ptr + req * (q_req_vecs * VEC) + head * (q_head_vecs * VEC))[:, None]
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
    page_step, token_step, head_step, v_step = page_vecs, token_vecs, head_vecs, v_vecs
    if WIDE:  # some element is past 2**31; smaller pools keep to 32 bits
        page_step, token_step, head_step = page_vecs.to(tl.int64), token_vecs.to(tl.int64), head_vecs.to(tl.int64)
        if v_vecs is not None:
            v_step = v_vecs.to(tl.int64)
    here = pool_ptr + kv_head * (head_step * VEC)
    for start in tl.range(first, last, TILE, num_stages=STAGES):
        t = start + tl.arange(0, TILE)
        seen = (t >= lo) & (t < last)
        page = tl.load(pages + t // PAGE, mask=seen, other=0)
        row = here + page * (page_step * VEC) + t % PAGE * (token_step * VEC)
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
            va, vb = _row(row + v_step * VEC, seen, VALUE, VA, VB)
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
