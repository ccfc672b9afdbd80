"""Which attention backend vLLM 0.33 chooses on an AMD card, as far as it decides block size and cache format.

The list is the same for every AMD card, but for AITER's unified attention, which is on it where the library is found
and the card is CDNA 3 or 4: AMD's image has the library, and that is assumed. VLLM_ROCM_USE_AITER is off by default, so
AITER's other backends are not on it: a latent cache is Triton's, or where tokens are selected AITER's, which has no
rival. Source: the platform's priority list and the backends' capability methods, read; no row of the engine's own
planner, which needs such a card to run.
"""

from __future__ import annotations

from kvplan.engine.vllm.backends.cuda import triton, turboquant
from kvplan.engine.vllm.backends.want import FP8, PLAIN, Backend, Want

AITER = frozenset({"cdna3", "cdna4"})
UNIFIED, SPARSE_MLA = "ROCM_AITER_UNIFIED_ATTN", "ROCM_AITER_MLA_SPARSE"
_OCTAVE_CARDS = frozenset({"cdna3", "rdna3", "rdna3.5"})
_OCTAVE_HEAD, _OCTAVE_ROTARY = 256, 64
_HEADS = (32, 64, 80, 96, 128, 160, 192, 224, 256)
_READ = PLAIN | FP8 | {"fp8_e5m2"}


def _rocm(want: Want) -> Backend | None:
    """The first of the list: keys and values apart, so that no encoder and no TurboQuant layer can share its blocks."""
    shared = want.encoder or want.cross or want.run_dtype.startswith("turboquant_")
    if want.head_dim not in _HEADS or want.kv_dtype not in _READ or want.sinks or want.prefix_lm or shared:
        return None
    return Backend("ROCM_ATTN", (16,), multiple=True)


def _unified(want: Want) -> Backend | None:
    """AITER's, which takes sinks and any head, and asks for blocks of 64."""
    shared = want.run_dtype.startswith("turboquant_")
    if want.card.amd not in AITER or want.head_dim < 32 or want.dtype == "float32":
        return None
    if want.kv_dtype not in _READ or want.prefix_lm or shared:
        return None
    return Backend(UNIFIED, (16,), multiple=True, prefers=64)


def _octave(want: Want) -> Backend | None:
    if not want.kv_dtype.startswith("octave_") or want.card.amd not in _OCTAVE_CARDS or want.dtype == "float32":
        return None
    if (want.head_dim, want.rotary) != (_OCTAVE_HEAD, _OCTAVE_ROTARY):
        return None
    if want.sinks or want.prefix_lm or want.cross or want.window or want.softcap:
        return None
    return Backend("ROCM_OCTAVE", (16,), multiple=True)


def _ultraquant(want: Want) -> Backend | None:
    """TurboQuant's kin: 4 bits in groups of 32 elements, bfloat16 only, blocks of 64 where it is alone."""
    if want.kv_dtype != "ultraquant_4bit" or want.dtype != "bfloat16" or want.head_dim % 32:
        return None
    if want.sinks or want.prefix_lm or want.cross or want.window:
        return None
    return Backend("ULTRAQUANT", (16, 32, 64, 128), multiple=False, prefers=64)


def _latent(want: Want) -> Backend | None:
    if want.kv_dtype not in PLAIN | FP8:
        return None
    return Backend(SPARSE_MLA, (1, 16), multiple=True) if want.sparse else Backend("TRITON_MLA", (16,), multiple=True)


_PRIORITY = (_rocm, _unified, triton, turboquant, _octave, _ultraquant)


def choose_rocm(want: Want) -> Backend | None:
    """Return the backend that the engine takes on an AMD card, or None where none supports the layer."""
    if want.unequal:
        return Backend("TRITON_ATTN_DIFFKV", (16,), multiple=True)
    if want.mla:
        return _latent(want)
    return next((found for choice in _PRIORITY if (found := choice(want)) is not None), None)
