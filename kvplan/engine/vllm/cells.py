"""Bytes of one token's keys and values, by KV dtype: plain, scaled per head, and the packed formats."""

from __future__ import annotations

# FlashMLA's packed formats: 512 latent bytes, scales and 64 rope elements in bf16 (656), or 4-bit latents (352)
PACKED_LATENT = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
_SCALE_BYTES = 8  # one float32 scale each for the key and the value of a token and head
# TurboQuant: bits of a key (8 is plain FP8, fewer carry a float16 norm) and of a value (with float16 scale and zero)
_TURBOQUANT = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
_ULTRAQUANT = "ultraquant_4bit"  # two 4-bit values a byte, a byte of scale for 32
# Octave's slot of a head of 256 channels, 64 of them turned by the position: the turned ones of a key at 4 bits, the
# others at 3, a float16 scale for each 64; a value at 4 or 3 bits with one scale. Compact: one scale and 3 bits for all
_OCTAVE = {"octave_k3v4": 248, "octave_k3v3": 216, "octave_k3v3_compact": 196}
# The packed formats that leave the first and last layers of a model unquantised
WITH_BOUNDARY = frozenset({*_TURBOQUANT, _ULTRAQUANT})


def cell_bytes(heads: int, head_dim: int, head_dim_v: int, kv_dtype: str, item: int) -> int:
    """Return the bytes of one token's keys and values in one layer of so many heads; `item` is the model dtype's."""
    both = head_dim + head_dim_v
    match kv_dtype:
        case "auto":
            return heads * both * item
        case "bfloat16" | "float16":
            return heads * both * 2
        case "int8_per_token_head" | "fp8_per_token_head":
            return heads * (both + _SCALE_BYTES)
        case "int4_per_token_head":
            return heads * (head_dim // 2 + head_dim_v // 2 + _SCALE_BYTES)
        case turboquant if turboquant in _TURBOQUANT:
            key_bits, value_bits = _TURBOQUANT[turboquant]
            key = head_dim if key_bits == 8 else -(-head_dim * key_bits // 8) + 2
            value = -(-head_dim * value_bits // 8) + 4
            return heads * (key + value + (key + value) % 2)
        case octave if octave in _OCTAVE:
            return heads * _OCTAVE[octave]
        case ultraquant if ultraquant == _ULTRAQUANT:
            return heads * (both // 2 + both // 32)
        case "nvfp4" | "nvfp4_4over6":
            return 2 * heads * (head_dim // 2 + head_dim // 16)  # two 4-bit values a byte, a byte of scale for 16
        case _:
            return heads * both
