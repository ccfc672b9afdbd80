"""Pools past 2**32 bytes, on a CPU: the kernel lazily backs what nobody touches, so only the last pages are real."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the kernels need the extra: pip install '.[gpu]'")
pytest.importorskip("triton", reason="the kernels need the extra: pip install '.[gpu]'")

from kvplan.kernels import paged_launch, reference, write

PAGE, KV_HEADS, DIM = 16, 2, 128
DTYPES = (torch.bfloat16, torch.float8_e5m2)


@pytest.mark.parametrize("outermost", ["pages", "heads"])
@pytest.mark.parametrize("cache", DTYPES, ids=str)
def test_last_pages_of_a_pool_beyond_32_bit_offsets(cache, outermost):
    """Written and read at element offsets past 2**31; in fp8 that takes 2**32 bytes, as it is read by 16-bit words."""
    token = 2 * KV_HEADS * DIM * 2 // 2  # words, counted as the kernel counts them in either dtype
    pages = 2**31 // (PAGE * token // (2 // cache.itemsize)) + 64
    if outermost == "pages":
        pool = torch.empty(pages, PAGE, KV_HEADS, 2 * DIM, dtype=cache)
    else:
        pool = torch.empty(KV_HEADS, pages, PAGE, 2 * DIM, dtype=cache).permute(1, 2, 0, 3)
    assert pool.nbytes > 2**32
    k, v = pool[..., :DIM], pool[..., DIM:]
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(40, KV_HEADS, 2 * DIM, generator=draw).bfloat16()
    ids = torch.tensor([pages - 1, pages - 3, pages - 2])
    slots = (ids[:, None] * PAGE + torch.arange(PAGE)).flatten()[:40]
    write.write(rows, pool, slots)
    q = torch.randn(1, 4, DIM, generator=draw).bfloat16()
    table, lengths = ids.int()[None], torch.tensor([40], dtype=torch.int32)
    launch = paged_launch.prepare(q, k, v, table, lengths, scale=DIM**-0.5)
    assert launch.constants["WIDE"]
    kept = rows.to(cache).double().view(40, KV_HEADS, 2, DIM)
    truth = reference.decode(
        q, kept[None, :, :, 0], kept[None, :, :, 1], torch.zeros(1, 1, dtype=torch.int32), lengths, scale=DIM**-0.5
    )
    assert reference.worst_row(launch(), truth) < 6e-3


def test_smaller_pools_stay_with_32_bits():
    pool = torch.empty(2**31 // (PAGE * KV_HEADS * 2 * DIM), PAGE, KV_HEADS, 2 * DIM, dtype=torch.bfloat16)
    table, lengths = torch.zeros(1, 1, dtype=torch.int32), torch.ones(1, dtype=torch.int32)
    q = torch.zeros(1, 4, DIM).bfloat16()
    launch = paged_launch.prepare(q, pool[..., :DIM], pool[..., DIM:], table, lengths, scale=1.0)
    assert not launch.constants["WIDE"]
