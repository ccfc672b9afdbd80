"""Paged decode attention in the interpreter against float64, row by row; see decode_cases for the poison."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the kernels need the extra: pip install '.[gpu]'")
pytest.importorskip("triton", reason="the kernels need the extra: pip install '.[gpu]'")

from decode_cases import Case, build, check
from decode_variants import VARIANTS
from kvplan.kernels.contract import ContractError
from kvplan.kernels.tiling import Tiling

from kvplan.kernels import paged_launch, reference

SMALL = Tiling(tile=16, warps=4, stages=3, rows=16)


@pytest.mark.parametrize("hnd", [False, True], ids=["nhd", "hnd"])
@pytest.mark.parametrize("name", VARIANTS)
def test_variant(name, hnd):
    """Each variant that is compiled for the chips, by the tiling that a launch would choose."""
    variant = VARIANTS[name]
    kv_heads = 1 if variant.latent else 2
    case = Case(
        lengths=(150, 33) if variant.page == 128 else (70, 1),
        heads=min(variant.group, 40) * kv_heads,  # 128 heads are four blocks of 32, 40 are two
        kv_heads=kv_heads,
        key=variant.key,
        value=variant.value,
        cache=getattr(torch, variant.dtype),
        page=variant.page,
        hnd=hnd,
        latent=variant.latent,
        window=None if variant.span == "all" else 40,
        chunked=variant.span == "chunk",
        sinks="sinks" in variant.features,
        softcap=5.0 if "softcap" in variant.features else None,
        head_scales="head_scales" in variant.features,
    )
    check(case, chunk=64 if "split" in variant.features else None)


@pytest.mark.parametrize("lengths", [(1,), (15, 16, 17), (31, 32, 33), (64, 1)])
@pytest.mark.parametrize("chunk", [16, 48])
def test_ends_of_chunks_and_pages(lengths, chunk):
    check(Case(lengths), cut=SMALL, chunk=chunk)


@pytest.mark.parametrize("page", [16, 32, 64, 128, 48, 576])
def test_pages(page):
    """Hybrids page by what covers a state, such as 576 tokens: any size will do."""
    check(Case((page + 5, page - 1), page=page), cut=Tiling(64, 4, 3, 16))


@pytest.mark.parametrize("window", [1, 15, 16, 17, 32, 40, 200])
def test_window(window):
    """Pages before the window are NaN, and so are the slots of its first page before it."""
    check(Case((100, 23, 40), window=window), cut=SMALL, chunk=32)


@pytest.mark.parametrize("lengths", [(96,), (97,), (127,), (128, 5)])
def test_chunked_attention_sees_its_own_chunk(lengths):
    check(Case(lengths, window=32, chunked=True), cut=SMALL, chunk=16)


def test_window_starts_inside_a_late_tile():
    """A length far beyond the window: chunks count from the window's first tile, not from zero."""
    check(Case((330, 7), window=20), cut=SMALL, chunk=32)


@pytest.mark.parametrize("splits", [1, 3, 20])
def test_chunks_join_to_one_answer(splits):
    """More than 16 chunks take the combine kernel twice round its loop."""
    check(Case((320, 3), heads=2, kv_heads=1), cut=SMALL, chunk=-(-320 // splits // 16) * 16)


def test_empty_request_is_zero():
    """Padding of a graph's batch: a length of 0 yields zeros, in one chunk and in several."""
    for chunk in (None, 16):
        q, k, v, table, lengths, options = build(Case((40, 20)))
        lengths[1] = 0
        out = paged_launch.decode(q, k, v, table, lengths, **options, cut=SMALL, chunk=chunk, max_len=40)
        assert torch.equal(out[1], torch.zeros_like(out[1]))
        truth = reference.decode(q[:1], k, v, table[:1], lengths[:1], **options)
        assert reference.worst_row(out[:1], truth) < 6e-3


def test_sink_outweighs_everything():
    q, k, v, table, lengths, options = build(Case(sinks=True))
    options["sinks"] = torch.full((4,), 50.0)
    out = paged_launch.decode(q, k, v, table, lengths, **options, cut=SMALL, chunk=32)
    assert out.abs().max() < 1e-12


def test_softcap_of_huge_logits():
    """Logits of +-10**4 under a cap of 30 are +-30: the exponential form of tanh must not overflow into NaN."""
    q, k, v, table, lengths, options = build(Case(softcap=30.0))
    options["scale"] = 1e3
    out = paged_launch.decode(q, k, v, table, lengths, **options, cut=SMALL)
    assert reference.worst_row(out, reference.decode(q, k, v, table, lengths, **options)) < 6e-3


def test_large_logits_need_the_running_maximum():
    q, k, v, table, lengths, options = build(Case((100, 50), cache=torch.float16))
    options["scale"] = 40.0
    out = paged_launch.decode(q, k, v, table, lengths, **options, cut=SMALL, chunk=32)
    assert reference.worst_row(out, reference.decode(q, k, v, table, lengths, **options)) < 1e-3


def test_launch_reads_lengths_and_table_when_it_runs():
    """What a CUDA graph needs: a launch is prepared once, and later contents decide."""
    q, k, v, table, lengths, options = build(Case((60, 60)))
    launch = paged_launch.prepare(q, k, v, table, lengths, **options, cut=SMALL, chunk=16, max_len=64)
    before = launch().clone()
    lengths.copy_(torch.tensor([1, 37]))
    table.copy_(table.flip(0))
    after = launch()
    truth = reference.decode(q, k, v, table, lengths, **options)
    assert reference.worst_row(after, truth) < 6e-3
    assert not torch.equal(before, after)


def test_query_of_a_fused_projection():
    """q as a slice of a fused QKV output: heads are contiguous, requests are not."""
    q, k, v, table, lengths, options = build(Case())
    fused = torch.zeros(2, 8, 64, dtype=q.dtype)
    fused[:, 2:6] = q
    out = paged_launch.decode(fused[:, 2:6], k, v, table, lengths, **options)
    assert torch.equal(out, paged_launch.decode(q, k, v, table, lengths, **options))


def test_two_dim_outermost_pool():
    """V may lie a whole pool behind K, as in caches of shape [2, pages, ...]."""
    q, k, v, table, lengths, options = build(Case())
    pool = torch.stack([k, v])
    out = paged_launch.decode(q, pool[0], pool[1], table, lengths, **options)
    assert torch.equal(out, paged_launch.decode(q, k, v, table, lengths, **options))


def test_heads_outermost():
    """The memory order is the strides' business: [heads, pages, page, dims] is as good as any."""
    q, k, v, table, lengths, options = build(Case())
    pool = torch.cat([k, v], dim=3).permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3)
    out = paged_launch.decode(q, pool[..., :64], pool[..., 64:], table, lengths, **options)
    assert torch.equal(out, paged_launch.decode(q, k, v, table, lengths, **options))


def test_layers_share_a_launch():
    """The second layer's pool in the place of the first's; a pool of another shape is refused."""
    q, k, v, table, lengths, options = build(Case())
    other = torch.cat([v, k], dim=3)
    launch = paged_launch.prepare(q, k, v, table, lengths, **options).over(other[..., :64])
    assert torch.equal(launch(), paged_launch.decode(q, v, k, table, lengths, **options))
    with pytest.raises(ContractError, match="its shape is not that of the first"):
        launch.over(other[1:, ..., :64])


def test_padded_pages():
    """Pages that the engine pads: the page stride is longer than a page."""
    q, k, v, table, lengths, options = build(Case(page=16, key=64, value=64))
    padded = torch.full((k.shape[0], 16 * 2 * 128 + 64), torch.nan, dtype=k.dtype)
    pool = padded[:, : 16 * 2 * 128].unflatten(1, (16, 2, 128))
    pool[..., :64], pool[..., 64:] = k, v
    out = paged_launch.decode(q, pool[..., :64], pool[..., 64:], table, lengths, **options)
    assert torch.equal(out, paged_launch.decode(q, k, v, table, lengths, **options))
