"""Which attention backend vLLM 0.33 chooses on a CUDA card, as far as it decides block size and cache format.

The engine walks a priority list by compute capability and takes the first backend that supports the layer's head size,
KV dtype and features. Backends differ in the block sizes that their kernels run: that is all that is kept of them
here. Source: the engine's own priority list and capability methods, checked against rows on SM 8.0, 8.9, 9.0 and 10.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvplan.engine.vllm.backends.want import FP8, PER_TOKEN, PLAIN, Backend, Want


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
    if want.kv_dtype not in PLAIN | FP8:
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
    if (
        not want.card.flashinfer_from <= want.capability <= (12, 1)
        or want.head_dim not in (64, 128, 256, 512)
        or want.dtype == "float32"
    ):
        return None
    if want.prefix_lm or want.cross or (want.sinks and want.major not in (9, 10, 12)):
        return None
    if want.kv_dtype in ("nvfp4", "nvfp4_4over6"):
        fa2 = want.major in (8, 9, 12)
        if fa2 and (want.kv_dtype != "nvfp4" or want.head_dim == 64 or want.sinks):
            return None
    elif want.kv_dtype not in PLAIN | FP8 | {"fp8_e5m2"}:
        return None
    grouped = want.kv_heads > 0 and want.query_heads // want.kv_heads > 1 and want.query_heads % want.kv_heads == 0
    large = want.major == 10 and grouped
    return Backend("FLASHINFER", (16, 32, 64, 128, 256, 512, 1024) if large else (16, 32, 64), multiple=False)


def _unequal(want: Want) -> Backend:
    """Keys and values of different widths: FlashAttention from Hopper on, Triton before; the model's class asks."""
    return Backend("FLASH_ATTN_DIFFKV" if want.major >= 9 else "TRITON_ATTN_DIFFKV", (16,), multiple=True)


def triton(want: Want) -> Backend | None:
    """Triton's own, which is on the lists of both platforms."""
    if want.head_dim < 32 or want.kv_dtype not in PLAIN | FP8 | PER_TOKEN | {"fp8_e5m2"}:
        return None
    return Backend("TRITON_ATTN", (16,), multiple=True)


def _flex(want: Want) -> Backend | None:
    if want.kv_dtype not in PLAIN or want.sinks or want.cross:
        return None
    return Backend("FLEX_ATTENTION", (16,), multiple=True)


def turboquant(want: Want) -> Backend | None:
    """TurboQuant's, on the lists of both platforms too."""
    if not want.kv_dtype.startswith("turboquant_") or want.sinks or want.prefix_lm or want.cross or want.window:
        return None
    return Backend("TURBOQUANT", (16, 32, 64, 128), multiple=False)


def _triton_flash(want: Want) -> Backend | None:
    """Image masks go to Triton, causal requests to FlashAttention: both must take the layer (Hopper only)."""
    causal = _flash(replace(want, prefix_lm=False))
    if want.head_dim not in (256, 512) or causal is None or triton(want) is None:
        return None
    return Backend("TRITON_FLASH_ATTN", causal.blocks, causal.multiple)


def _triton_flashinfer(want: Want) -> Backend | None:
    """As _triton_flash with FlashInfer for causal requests (SM 10.x only)."""
    causal = _flashinfer(replace(want, prefix_lm=False))
    if want.head_dim not in (256, 512) or causal is None or triton(want) is None:
        return None
    return Backend("TRITON_FLASHINFER", (64,), multiple=False)


def _dense_mla(want: Want) -> Backend | None:
    rope_free = want.mla_dims is not None and want.mla_dims[0] not in (64, 128, 192)
    if want.major == 10:
        if want.kv_dtype in PLAIN | FP8 and not rope_free:
            return Backend("FLASHINFER_MLA", (32, 64), multiple=False)
        if want.kv_dtype in PLAIN | FP8:
            return Backend("CUTLASS_MLA", (128,), multiple=False)
        return None
    if want.major == 9:
        if want.kv_dtype in PLAIN:
            return Backend("FLASH_ATTN_MLA", (16,), multiple=True)
        if want.kv_dtype in FP8:
            return Backend("FLASHMLA", (64,), multiple=False)
        return None
    return Backend("TRITON_MLA", (16,), multiple=True) if want.kv_dtype in PLAIN | FP8 else None


def _sparse_mla(want: Want) -> Backend | None:
    sparse = Backend("FLASHMLA_SPARSE", (64,), multiple=True)
    if want.major == 9:
        if want.kv_dtype in PLAIN:
            return Backend("FLASH_ATTN_MLA_SPARSE", (64,), multiple=True)
        if want.kv_dtype in ("fp8", "fp8_ds_mla"):
            return sparse
        return Backend("FLASHINFER_MLA_SPARSE_SM90", (64,), multiple=True) if want.kv_dtype == "fp8_e4m3" else None
    if want.major == 10:
        flashinfer = Backend("FLASHINFER_MLA_SPARSE", (32,), multiple=True)
        if want.kv_dtype in FP8:
            return flashinfer
        if want.kv_dtype not in PLAIN:
            return sparse if want.kv_dtype in ("fp8_ds_mla", "nvfp4_ds_mla") else None
        few = want.query_heads <= 16 and want.query_heads in (8, 16)
        topk = want.index_topk is not None and want.index_topk % 128 == 0
        if few and topk:
            return Backend("FLASH_ATTN_MLA_SPARSE_FA4", (64,), multiple=True)
        return flashinfer if want.query_heads <= 16 else sparse
    if want.major == 12 and want.kv_dtype in FP8 | {"auto", "fp8_ds_mla"} and want.index_topk == 2048:
        return Backend("FLASHINFER_MLA_SPARSE_SM120", (64,), multiple=True)
    return None


_Choice = Callable[[Want], Backend | None]
_CAUSAL: tuple[_Choice, ...] = (_flash, _flashinfer, triton, _flex, turboquant)
_PRIORITY: dict[int, tuple[_Choice, ...]] = {
    9: (_triton_flash, *_CAUSAL),
    10: (_triton_flashinfer, _flashinfer, _flash, triton, _flex, turboquant),
}


def choose_cuda(want: Want) -> Backend | None:
    """Return the backend that the engine takes on a CUDA card, or None where none supports the layer."""
    if want.unequal:
        return _unequal(want)
    if want.mla:
        return _sparse_mla(want) if want.sparse else _dense_mla(want)
    for choice in _PRIORITY.get(want.major, _CAUSAL):
        if choice in (_triton_flash, _triton_flashinfer) and not want.prefix_lm:
            continue
        found = choice(want)
        if found is not None:
            return found
    return None
