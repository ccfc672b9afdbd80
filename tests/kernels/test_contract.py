"""The launcher's contract: what it refuses, and that the words name the tensor and the rule."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the kernels need the extra: pip install '.[gpu]'")
pytest.importorskip("triton", reason="the kernels need the extra: pip install '.[gpu]'")

from decode_cases import Case, build
from kvplan.kernels.contract import ContractError

from kvplan.kernels import paged_launch, tiling

BF16 = torch.bfloat16


def pool(pages=8, page=16, kv_heads=2, width=128, dtype=BF16):
    return torch.zeros(pages, page, kv_heads, width).to(dtype)


def given(**changes):
    """A valid decode of two requests, with changes; `pool` stands for both k and v."""
    cache = changes.pop("pool", None)
    cache = pool() if cache is None else cache
    arguments = {
        "q": torch.zeros(2, 4, 64).to(BF16), "k": cache[..., :64], "v": cache[..., 64:128],
        "table": torch.arange(8, dtype=torch.int32).view(2, 4), "lengths": torch.tensor([40, 1], dtype=torch.int32),
        "scale": 1.0,
    }  # fmt: skip
    return arguments | changes


def test_valid_arguments_pass():
    assert paged_launch.prepare(**given()).grid[1:] == (2, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": torch.zeros(2, 64).to(BF16)}, "q has 2 dims"),
        ({"q": torch.zeros(2, 4, 80).to(BF16)}, "q has head dim 80, k has 64"),
        ({"q": torch.zeros(2, 3, 64).to(BF16)}, "3 query heads do not divide among 2"),
        ({"q": torch.zeros(2, 4, 64)}, "neither bfloat16 nor float16"),
        ({"q": torch.zeros(2, 4, 64).half()}, "q is torch.float16, the cache torch.bfloat16"),
        ({"q": torch.zeros(2, 4, 128).to(BF16)[..., ::2]}, "q: the last dim has stride 2"),
        ({"q": torch.zeros(2, 4, 65).to(BF16)[..., :64]}, "q: the stride of dim 0 is 520 bytes"),
        ({"q": torch.zeros(2 * 4 * 64 + 1).to(BF16)[1:].view(2, 4, 64)}, "q: begins at an address"),
        ({"pool": pool(dtype=torch.float32)}, "dtype torch.float32 is none of"),
        ({"pool": pool(width=132)}, "k: the stride of dim 0 is 8448|k: the stride of dim 1|k: the stride of dim 2"),
        ({"v": pool()[..., :64]}, "two allocations"),
        ({"v": pool(page=32)[..., :64]}, "v: not of k's dtype, pages"),
        ({"v": pool(width=64)}, "v: strides"),
        ({"v": None, "latent": 48}, "latent: 48 of 64 dims"),
        ({"v": None, "latent": 0}, "latent: 0 of 64 dims"),
        ({"table": torch.zeros(2, 4, dtype=torch.int64)}, "table: not int32"),
        ({"table": torch.zeros(3, 4, dtype=torch.int32)}, "2 queries, 3 tables"),
        ({"table": torch.full((2, 4), 8, dtype=torch.int32)}, "table: ids from 8 to 8"),
        ({"table": torch.full((2, 4), -1, dtype=torch.int32)}, "table: ids from -1 to -1"),
        ({"table": torch.zeros(2, 8, dtype=torch.int32)[:, ::2]}, "rows must be contiguous"),
        ({"lengths": torch.tensor([40, 1])}, "lengths: not int32"),
        ({"lengths": torch.tensor([65, 1], dtype=torch.int32)}, "4 pages of 16 hold no request of 65"),
        ({"max_len": 10}, "max_len is 10, but a request has 40"),
        ({"max_len": 65}, "hold no request of 65"),
        ({"window": 0}, "window: 0 tokens"),
        ({"chunked": True}, "needs a window"),
        ({"sinks": torch.zeros(3)}, r"sinks: not contiguous \[heads\]"),
        ({"head_scales": torch.zeros(2, 3)}, "head_scales: not contiguous float32"),
        ({"chunk": 100}, "chunk 100 is no multiple of the tile"),
    ],
    ids=str,
)
def test_refused(changes, message):
    with pytest.raises(ContractError, match=message):
        paged_launch.prepare(**given(**changes))


def test_rows_that_are_no_vectors_are_refused():
    """fp8 rows of 72 dims are 72 bytes: half of them would not begin on a 16-byte boundary."""
    cache = pool(width=160, dtype=torch.float8_e5m2)
    with pytest.raises(ContractError, match="k: rows of 72 dims are no multiple of 16 bytes"):
        paged_launch.prepare(
            **given(q=torch.zeros(2, 4, 80).to(BF16)[..., :72], k=cache[..., :72], v=cache[..., 80:152])
        )


def test_ids_outside_a_request_may_be_anything():
    """Only what a program would read is checked: past the end, and before the window, ids may be rubbish."""
    q, k, v, table, lengths, options = build(Case((40, 20), window=8))
    table[:, 3:], table[0, :2] = 2**30, -7
    assert paged_launch.decode(q, k, v, table, lengths, **options).isfinite().all()


def test_rows_wider_than_the_table_are_refused():
    with pytest.raises(ContractError, match="1024 words"):
        tiling.choose(tiling.Chip("cuda", 90, 132), words=1024, latent=False)


@pytest.mark.parametrize(
    ("tokens", "blocks", "group", "latent", "chunk"),
    [
        (6 * 131_072, 8, 4, False, 3008),  # four waves of 132 x 4 programs
        (131_072, 8, 4, False, 512),  # one long request: as short as partial outputs allow
        (1024, 8, 4, False, 512),
        (256 * 131_072, 8, 4, False, 127_104),
        (163_840, 1, 16, True, 1024),  # MLA's 16 heads over one latent: 64 tokens a head
        (64 * 8192, 4, 128, True, 8192),
        (163_840, 4, 128, True, 4992),  # one request: a full wave of programs rather than chunks of 8,192
    ],
)
def test_chunks_fill_the_card(tokens, blocks, group, latent, chunk):
    found = tiling.chunk_size(
        tiling.Chip("cuda", 90, 132), tokens=tokens, longest=163_840, blocks=blocks, group=group, tile=64, latent=latent
    )
    assert found == chunk


def test_no_chunk_is_longer_than_the_longest_request():
    chip = tiling.Chip("cuda", 90, 132)
    found = tiling.chunk_size(chip, tokens=10**9, longest=1000, blocks=8, group=4, tile=64, latent=False)
    assert found == 1024
