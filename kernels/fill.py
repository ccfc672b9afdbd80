"""Fill memory with numbers that any place can recompute, and read it back: the proof that every byte is there.

Word i of a buffer holds a hash of (salt, i), so a page's content is known without a copy of the pool, and two addresses
that share memory betray themselves: one of them reads the other's hash. The read-back pass reads each byte once and
does little else, so its speed is the read bandwidth that decode attention is judged by.

The hash is masked into numbers that are finite and modest in the cache's dtype, never zeros: zeros draw less power, and
some chips compress them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from . import contract
from .contract import require

# (mask, base) by dtype for the two or four numbers of a word: sign and mantissa are free, and the exponent is held so
# that 1/8 <= |x| < 2, in fp8 1/2 <= |x| < 2; what is kept in float32 reads the bfloat16 pattern as such numbers too
PATTERNS = {
    torch.bfloat16: (0x81FF81FF, 0x3E003E00),
    torch.float16: (0x8FFF8FFF, 0x30003000),
    torch.float8_e4m3fn: (0x8F8F8F8F, 0x30303030),
    torch.float8_e5m2: (0x87878787, 0x38383838),
}
BLOCK = 4096  # words a program: 16 KiB, 128 threads with eight 16-byte accesses each
INTERPRETED = 2**16  # words a program in the interpreter, which pays by the program


@triton.jit
def _hashed(block, salt, MASK: tl.constexpr, BASE: tl.constexpr, BLOCK: tl.constexpr):
    """Return the words of a block. Only its number is 64 bits wide: a block never straddles a multiple of 2**32."""
    start = block.to(tl.int64) * BLOCK
    high = (start >> 32).to(tl.uint32) * 0x9E3779B9 + salt.to(tl.uint32)
    x = (start.to(tl.uint32) + tl.arange(0, BLOCK).to(tl.uint32)) ^ high
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    x = x ^ (x >> 16)
    return ((x & MASK) | BASE).to(tl.int32, bitcast=True)


@triton.jit(do_not_specialize=["vecs", "salt"])
def fill_kernel(buffer_ptr, vecs, salt, MASK: tl.constexpr, BASE: tl.constexpr, BLOCK: tl.constexpr):
    """Write every word of a buffer of `vecs` x 4 words: the mask then changes at whole 16-byte vectors only."""
    block = tl.program_id(0)
    i = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(buffer_ptr + i, _hashed(block, salt, MASK, BASE, BLOCK), mask=i < vecs * 4)


@triton.jit(do_not_specialize=["vecs", "salt"])
def check_kernel(buffer_ptr, wrong_ptr, vecs, salt, MASK: tl.constexpr, BASE: tl.constexpr, BLOCK: tl.constexpr):
    """Read every word of the buffer once, and add the number of those that are not what `fill_kernel` wrote."""
    block = tl.program_id(0)
    i = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    seen = tl.load(buffer_ptr + i, mask=i < vecs * 4, other=0)
    wrong = tl.sum(((seen != _hashed(block, salt, MASK, BASE, BLOCK)) & (i < vecs * 4)).to(tl.int32), 0)
    if wrong > 0:
        tl.atomic_add(wrong_ptr, wrong)


def fill(buffer: torch.Tensor, dtype: torch.dtype, salt: int) -> None:
    """Fill a contiguous int32 buffer with numbers of `dtype`; `salt` tells buffers apart."""
    mask, base, block = _checked(buffer, dtype, salt)
    vecs = buffer.numel() // 4
    fill_kernel[(triton.cdiv(buffer.numel(), block),)](buffer, vecs, salt, mask, base, block, num_warps=4)


def check(buffer: torch.Tensor, wrong: torch.Tensor, dtype: torch.dtype, salt: int) -> None:
    """Add to wrong [1] (int64) the number of words of the buffer that `fill` did not leave there."""
    mask, base, block = _checked(buffer, dtype, salt)
    contract.same_device(buffer=buffer, wrong=wrong)
    require(wrong.shape == (1,) and wrong.dtype == torch.int64, "wrong: not int64 [1]")
    vecs = buffer.numel() // 4
    check_kernel[(triton.cdiv(buffer.numel(), block),)](buffer, wrong, vecs, salt, mask, base, block, num_warps=4)


def _checked(buffer: torch.Tensor, dtype: torch.dtype, salt: int) -> tuple[int, int, int]:
    """Hold a buffer to the contract; return the pattern of its dtype and the words a program."""
    require(buffer.dtype == torch.int32 and buffer.is_contiguous(), "buffer: not contiguous int32 words")
    require(buffer.numel() > 0 and buffer.numel() % 4 == 0, f"buffer: {buffer.numel()} words are no 16-byte vectors")
    require(0 <= salt < contract.INT32, f"salt: {salt}")
    contract.aligned("buffer", buffer)
    require(dtype in PATTERNS, f"no pattern for {dtype}")
    block = BLOCK if buffer.is_cuda else INTERPRETED
    require(triton.cdiv(buffer.numel(), block) < contract.INT32, f"{buffer.numel()} words: the grid ends at 2**31")
    return *PATTERNS[dtype], block
