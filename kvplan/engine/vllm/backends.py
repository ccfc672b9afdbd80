"""Which attention backend vLLM 0.33 chooses on a CUDA card, as far as it decides block size and cache format.

The engine walks a priority list by compute capability and takes the first backend that supports the layer's head size,
KV dtype and features. Backends differ in the block sizes that their kernels run: that is all that is kept of them
here. Source: the engine's own priority list and capability methods, checked against rows on SM 8.0, 8.9, 9.0 and 10.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import lcm

from kvplan.record import dataclass

DEFAULT_BLOCK_SIZE = 16
_PLAIN = frozenset({"auto", "float16", "bfloat16"})
_FP8 = frozenset({"fp8", "fp8_e4m3"})
_PER_TOKEN = frozenset({"int4_per_token_head", "int8_per_token_head", "fp8_per_token_head"})


@dataclass(frozen=True, slots=True)
class Want:
    """What a layer asks of a backend. `capability` is (major, minor); `query_heads` and `kv_heads` are per rank."""

    capability: tuple[int, int]
    head_dim: int
    kv_dtype: str
    mla: bool = False
    sparse: bool = False
    sinks: bool = False
    prefix_lm: bool = False
    softcap: bool = False
    cross: bool = False
    window: bool = False
    query_heads: int = 1
    kv_heads: int = 1
    mla_dims: tuple[int, int, int] | None = None
    index_topk: int | None = None
    dtype: str = "bfloat16"
    context_parallel: bool = False

    @property
    def major(self) -> int:
        """The compute capability's major number: 8 Ampere and Ada, 9 Hopper, 10 and 12 Blackwell."""
        return self.capability[0]

    @property
    def quantised(self) -> bool:
        """Whether the KV dtype is a quantised one."""
        return self.kv_dtype not in _PLAIN


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend's name, and the block sizes that its kernels run: exactly these, or (`multiple`) multiples of them."""

    name: str
    blocks: tuple[int, ...]
    multiple: bool

    def runs(self, block_size: int) -> bool:
        """Say whether a block of this many tokens can be run, whole or split into kernel blocks."""
        return any(block_size % size == 0 for size in self.blocks)

    def preferred(self, default: int) -> int:
        """Return the default block size where it runs, else the smallest that does."""
        return default if self.runs(default) else min(self.blocks)

    def largest_within(self, tokens: int) -> int:
        """Return the largest kernel block of at most `tokens` tokens; the smallest one where none fits."""
        if self.multiple:
            return max(max(size, tokens // size * size) for size in self.blocks)
        fitting = [size for size in self.blocks if size <= tokens]
        return max(fitting) if fitting else min(self.blocks)


def _flash_version(want: Want) -> int:
    """FlashAttention's version for this layer: 3 on Hopper (4 above head 256), 4 on SM 10.x, else 2."""
    if want.major == 9:
        return 4 if want.head_dim > 256 else 3
    if want.major != 10:
        return 2
    if want.head_dim == 256:
        falls_back = want.sinks or want.softcap or want.quantised or want.prefix_lm or want.context_parallel
        return 2 if falls_back else 4
    return 2 if want.head_dim > 128 else 4


def _flash(want: Want) -> Backend | None:
    widest = 512 if want.major in (9, 10, 11) else 256
    if want.major < 8 or want.head_dim % 8 or want.head_dim > widest or want.dtype == "float32":
        return None
    if want.kv_dtype not in _PLAIN | _FP8:
        return None
    version = _flash_version(want)
    if want.quantised:
        hopper = want.major == 9 and (version == 3 or want.head_dim == 512) and not want.prefix_lm
        if not (hopper or (want.major == 10 and version == 4)):
            return None
    if want.sinks and (want.major < 9 or version not in (3, 4)):
        return None
    if want.prefix_lm and version != 4:
        return None
    if want.major == 9 and want.quantised and want.head_dim == 512:
        return Backend("FLASH_ATTN", (64,), multiple=False)  # the FP8-dequantising kernel loads tiles of 64 tokens
    if want.major == 10 and want.head_dim == 256 and version == 4:
        return Backend("FLASH_ATTN", (128,), multiple=False)
    return Backend("FLASH_ATTN", (16,), multiple=True)


def _flashinfer(want: Want) -> Backend | None:
    if not (8, 0) <= want.capability <= (12, 1) or want.head_dim not in (64, 128, 256, 512) or want.dtype == "float32":
        return None
    if want.prefix_lm or want.cross or (want.sinks and want.major not in (9, 10, 12)):
        return None
    if want.kv_dtype in ("nvfp4", "nvfp4_4over6"):
        fa2 = want.major in (8, 9, 12)
        if fa2 and (want.kv_dtype != "nvfp4" or want.head_dim == 64 or want.sinks):
            return None
    elif want.kv_dtype not in _PLAIN | _FP8 | {"fp8_e5m2"}:
        return None
    grouped = want.kv_heads > 0 and want.query_heads // want.kv_heads > 1 and want.query_heads % want.kv_heads == 0
    large = want.major == 10 and grouped
    return Backend("FLASHINFER", (16, 32, 64, 128, 256, 512, 1024) if large else (16, 32, 64), multiple=False)


def _triton(want: Want) -> Backend | None:
    if want.head_dim < 32 or want.kv_dtype not in _PLAIN | _FP8 | _PER_TOKEN | {"fp8_e5m2"}:
        return None
    return Backend("TRITON_ATTN", (16,), multiple=True)


def _flex(want: Want) -> Backend | None:
    if want.kv_dtype not in _PLAIN or want.sinks or want.cross:
        return None
    return Backend("FLEX_ATTENTION", (16,), multiple=True)


def _turboquant(want: Want) -> Backend | None:
    if not want.kv_dtype.startswith("turboquant_") or want.sinks or want.prefix_lm or want.cross or want.window:
        return None
    return Backend("TURBOQUANT", (16, 32, 64, 128), multiple=False)


def _triton_flash(want: Want) -> Backend | None:
    """Image masks go to Triton, causal requests to FlashAttention: both must take the layer (Hopper only)."""
    causal = _flash(replace(want, prefix_lm=False))
    if want.head_dim not in (256, 512) or causal is None or _triton(want) is None:
        return None
    return Backend("TRITON_FLASH_ATTN", causal.blocks, causal.multiple)


def _triton_flashinfer(want: Want) -> Backend | None:
    """As _triton_flash with FlashInfer for causal requests (SM 10.x only)."""
    causal = _flashinfer(replace(want, prefix_lm=False))
    if want.head_dim not in (256, 512) or causal is None or _triton(want) is None:
        return None
    return Backend("TRITON_FLASHINFER", (64,), multiple=False)


def _dense_mla(want: Want) -> Backend | None:
    rope_free = want.mla_dims is not None and want.mla_dims[0] not in (64, 128, 192)
    if want.major == 10:
        if want.kv_dtype in _PLAIN | _FP8 and not rope_free:
            return Backend("FLASHINFER_MLA", (32, 64), multiple=False)
        if want.kv_dtype in _PLAIN | _FP8:
            return Backend("CUTLASS_MLA", (128,), multiple=False)
        return None
    if want.major == 9:
        if want.kv_dtype in _PLAIN:
            return Backend("FLASH_ATTN_MLA", (16,), multiple=True)
        if want.kv_dtype in _FP8:
            return Backend("FLASHMLA", (64,), multiple=False)
        return None
    return Backend("TRITON_MLA", (16,), multiple=True) if want.kv_dtype in _PLAIN | _FP8 else None


def _sparse_mla(want: Want) -> Backend | None:
    sparse = Backend("FLASHMLA_SPARSE", (64,), multiple=True)
    if want.major == 9:
        if want.kv_dtype in _PLAIN:
            return Backend("FLASH_ATTN_MLA_SPARSE", (64,), multiple=True)
        if want.kv_dtype in ("fp8", "fp8_ds_mla"):
            return sparse
        return Backend("FLASHINFER_MLA_SPARSE_SM90", (64,), multiple=True) if want.kv_dtype == "fp8_e4m3" else None
    if want.major == 10:
        flashinfer = Backend("FLASHINFER_MLA_SPARSE", (32,), multiple=True)
        if want.kv_dtype in _FP8:
            return flashinfer
        if want.kv_dtype not in _PLAIN:
            return sparse if want.kv_dtype in ("fp8_ds_mla", "nvfp4_ds_mla") else None
        few = want.query_heads <= 16 and want.query_heads in (8, 16)
        topk = want.index_topk is not None and want.index_topk % 128 == 0
        if few and topk:
            return Backend("FLASH_ATTN_MLA_SPARSE_FA4", (64,), multiple=True)
        return flashinfer if want.query_heads <= 16 else sparse
    if want.major == 12 and want.kv_dtype in _FP8 | {"auto", "fp8_ds_mla"} and want.index_topk == 2048:
        return Backend("FLASHINFER_MLA_SPARSE_SM120", (64,), multiple=True)
    return None


_Choice = Callable[[Want], Backend | None]
_CAUSAL: tuple[_Choice, ...] = (_flash, _flashinfer, _triton, _flex, _turboquant)
_PRIORITY: dict[int, tuple[_Choice, ...]] = {
    9: (_triton_flash, *_CAUSAL),
    10: (_triton_flashinfer, _flashinfer, _flash, _triton, _flex, _turboquant),
}


def choose(want: Want) -> Backend | None:
    """Return the backend that the engine takes, or None where none supports the layer (it refuses to start)."""
    if want.mla:
        return _sparse_mla(want) if want.sparse else _dense_mla(want)
    for choice in _PRIORITY.get(want.major, _CAUSAL):
        if choice in (_triton_flash, _triton_flashinfer) and not want.prefix_lm:
            continue
        found = choice(want)
        if found is not None:
            return found
    return None


def common_block_size(backends: list[Backend], default: int = DEFAULT_BLOCK_SIZE) -> int | None:
    """Return the block size that all of a model's backends accept: the default, else the smallest common one."""
    if len(backends) == 1:
        return backends[0].preferred(default)
    if all(backend.runs(default) for backend in backends):
        return default
    sizes = {1}
    for backend in backends:
        sizes = {lcm(size, other) for size in sizes for other in backend.blocks}
    return next((size for size in sorted(sizes) if all(backend.runs(size) for backend in backends)), None)
