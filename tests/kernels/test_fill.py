"""The hash fill: recomputable anywhere, finite in every dtype, and a read-back that sees one wrong word."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the kernels need the extra: pip install '.[gpu]'")
triton = pytest.importorskip("triton", reason="the kernels need the extra: pip install '.[gpu]'")

import triton.language as tl
from kvplan.kernels.contract import ContractError

from kvplan.kernels import fill, reference

BLOCK = fill.INTERPRETED
WORDS = 2 * BLOCK + 12  # the last block is a short one


def filled(dtype, salt=5):
    buffer = torch.zeros(WORDS, dtype=torch.int32)
    fill.fill(buffer, dtype, salt)
    return buffer


def wrong_words(buffer, dtype, salt=5):
    wrong = torch.zeros(1, dtype=torch.int64)
    fill.check(buffer, wrong, dtype, salt)
    return wrong.item()


@pytest.mark.parametrize("dtype", fill.PATTERNS, ids=str)
def test_fill_is_the_reference_pattern(dtype):
    want = reference.pattern(torch.arange(WORDS), 5, *fill.PATTERNS[dtype])
    assert torch.equal(filled(dtype), want)


@pytest.mark.parametrize("dtype", fill.PATTERNS, ids=str)
def test_numbers_are_modest_and_varied(dtype):
    x = filled(dtype).view(dtype).float()
    assert x.isfinite().all()
    assert x.abs().min() >= 0.125
    assert x.abs().max() < 2
    assert x.mean().abs() < 0.05
    assert len(x.unique()) >= 16


def test_states_in_float32_are_finite():
    x = filled(torch.bfloat16).view(torch.float32)
    assert x.isfinite().all()
    assert x.abs().max() < 2


def test_check_counts_each_wrong_word():
    buffer = filled(torch.bfloat16)
    assert wrong_words(buffer, torch.bfloat16) == 0
    buffer[77] ^= 1
    buffer[WORDS - 1] = buffer[0]
    assert wrong_words(buffer, torch.bfloat16) == 2


def test_aliased_halves_show():
    """Two address ranges on one piece of memory: the second fill overwrites the first."""
    buffer = filled(torch.bfloat16)
    buffer[:BLOCK] = buffer[BLOCK : 2 * BLOCK]
    assert wrong_words(buffer, torch.bfloat16) > 0.9 * BLOCK


def test_salt_tells_buffers_apart():
    assert wrong_words(filled(torch.float16, salt=5), torch.float16, salt=6) > 0.9 * WORDS


@triton.jit
def hashed_block(out_ptr, block, salt, MASK: tl.constexpr, BASE: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), fill._hashed(block + tl.program_id(0), salt, MASK, BASE, BLOCK))


@pytest.mark.parametrize("block", [0, 2**20 - 1, 2**20, 3 * 2**20 + 7])
def test_hash_beyond_four_billion_words(block):
    """Block 2**20 begins at word 2**32, 16 GiB into a buffer: it must differ from block 0, and equal the reference."""
    out = torch.zeros(fill.BLOCK, dtype=torch.int32)
    pattern = fill.PATTERNS[torch.bfloat16]
    hashed_block[(1,)](out, block, 5, *pattern, fill.BLOCK)
    words = torch.arange(block * fill.BLOCK, (block + 1) * fill.BLOCK)
    assert torch.equal(out, reference.pattern(words, 5, *pattern))


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (torch.zeros(8), "int32 words"),
        (torch.zeros(6, dtype=torch.int32), "6 words"),
        (torch.zeros(5, dtype=torch.int32)[1:], "begins at an address"),
    ],
)
def test_contract(buffer, message):
    with pytest.raises(ContractError, match=message):
        fill.fill(buffer, torch.bfloat16, 0)
