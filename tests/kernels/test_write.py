"""Cache writes bit for bit as torch rounds, and page copies."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the kernels need the extra: pip install '.[gpu]'")
pytest.importorskip("triton", reason="the kernels need the extra: pip install '.[gpu]'")

from kvplan.kernels.contract import ContractError

from kvplan.kernels import reference, write

FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
BITS = {1: torch.int8, 2: torch.int16}


def same_bits(a, b):
    kind = BITS[a.element_size()]
    return torch.equal(a.contiguous().view(kind), b.contiguous().view(kind))


@pytest.mark.parametrize("hnd", [False, True], ids=["nhd", "hnd"])
@pytest.mark.parametrize("cache", [None, *FP8], ids=str)
@pytest.mark.parametrize("source", [torch.bfloat16, torch.float16], ids=str)
def test_write(source, cache, hnd):
    """Three heads of 80: neither is a power of two. Slots are shuffled, one is padding, none else is touched."""
    cache = cache or source
    rows = (torch.randn(7, 3, 80, generator=torch.Generator().manual_seed(3)) * 4).to(source)
    rows[0, 0, :3] = torch.tensor([3e4, -3e4, torch.nan]).to(source)
    pool = torch.full((4, 16, 3, 80), 7.0).to(cache)
    if hnd:
        pool = pool.transpose(1, 2).contiguous().transpose(1, 2)
    want = pool.clone()
    slots = torch.tensor([5, 63, -1, 0, 17, 33, 40])
    scale = 0.37 if cache in FP8 else 1.0
    write.write(rows, pool, slots, scale=scale)
    reference.write(rows, want, slots, scale=scale)
    assert same_bits(pool, want)


@pytest.mark.parametrize("cache", FP8, ids=str)
def test_every_fp16_value_rounds_as_torch_does(cache):
    """All 65,536 patterns: ties, subnormals, both infinities, every NaN."""
    rows = torch.arange(2**16).to(torch.int16).view(torch.float16).reshape(64, 4, 256)
    pool, want = (torch.zeros(4, 16, 4, 256, dtype=cache) for _ in range(2))
    write.write(rows, pool, torch.arange(64))
    reference.write(rows, want, torch.arange(64))
    assert same_bits(pool, want)


@pytest.mark.parametrize(
    ("cache", "value", "stored"),
    [(FP8[0], 3.14159, 3.25), (FP8[0], 0.1234, 0.125), (FP8[0], 1e4, 448.0), (FP8[1], -1e5, -57344.0)],
)
def test_worked_figures(cache, value, stored):
    """The figures of the project's list: what 3.14159 becomes, and where both formats end."""
    pool = torch.zeros(1, 16, 1, 16, dtype=cache)
    write.write(torch.full((1, 1, 16), value).half().clamp(-65504, 65504), pool, torch.tensor([0]))
    assert pool[0, 0].float().unique().tolist() == [stored]


def test_scale_of_a_write_is_undone_by_a_read():
    rows = torch.randn(1, 1, 64, generator=torch.Generator().manual_seed(0)).bfloat16() * 1000
    pool = torch.zeros(1, 16, 1, 64, dtype=FP8[0])
    write.write(rows, pool, torch.tensor([3]), scale=20.0)
    back = pool[0, 3].float() * 20.0
    assert torch.allclose(back, rows[0].float(), rtol=2**-4)


def test_copy_pages_in_every_layer_at_once():
    pools = [torch.randn(6, 16, 2, 72).bfloat16() for _ in range(3)]
    want = [pool.clone() for pool in pools]
    source, target = torch.tensor([0, 3, 0], dtype=torch.int32), torch.tensor([5, 1, 2], dtype=torch.int32)
    write.copy_pages(pools, source, target)
    for pool in want:
        reference.copy_pages(pool, source, target)
    assert all(torch.equal(a, b) for a, b in zip(pools, want, strict=True))


def test_copy_of_nothing():
    pool = torch.ones(2, 16)
    write.copy_pages([pool], torch.zeros(0, dtype=torch.int32), torch.zeros(0, dtype=torch.int32))
    assert torch.equal(pool, torch.ones(2, 16))


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (ints(0, 1), ints(2, 2), "written twice"),
        (ints(0, 1), ints(1, 2), "source and target at once"),
        (ints(0), ints(9), "not all in"),
        (ints(0, 1), ints(2), "2 sources, 1 targets"),
    ],
)
def test_copies_that_would_race_are_refused(source, target, message):
    with pytest.raises(ContractError, match=message):
        write.copy_pages([torch.zeros(4, 16)], source, target)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": torch.tensor([0, 64])}, "not all in"),
        ({"slots": torch.tensor([0])}, "slots: not contiguous"),
        ({"rows": torch.zeros(2, 2, 64)}, "neither bfloat16 nor float16"),
        ({"rows": torch.zeros(2, 1, 64).bfloat16()}, "rows hold 1 x 64"),
        ({"rows": torch.zeros(2, 2, 64).half()}, "rows are torch.float16"),
        ({"scale": 0.5}, "only fp8 caches are scaled"),
        ({"cache": torch.zeros(4, 16, 2, 65).bfloat16()[..., :64]}, "the stride of dim 1"),
    ],
)
def test_contract_of_a_write(change, message):
    given = {
        "rows": torch.zeros(2, 2, 64).bfloat16(), "cache": torch.zeros(4, 16, 2, 64).bfloat16(),
        "slots": torch.tensor([0, 1]), "scale": 1.0,
    } | change  # fmt: skip
    with pytest.raises(ContractError, match=message):
        write.write(given["rows"], given["cache"], given["slots"], scale=given["scale"])
