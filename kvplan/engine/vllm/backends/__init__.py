"""Which attention backend vLLM chooses for a layer, by platform, and what it finds out too late that it cannot read."""

from __future__ import annotations

from kvplan.engine.vllm.backends.cuda import choose_cuda
from kvplan.engine.vllm.backends.rocm import choose_rocm
from kvplan.engine.vllm.backends.want import DEFAULT_BLOCK_SIZE, Backend, Card, Want, common_block_size

__all__ = ["DEFAULT_BLOCK_SIZE", "Backend", "Card", "Want", "choose", "common_block_size", "unread"]

_FP8_NATIVE, _BF16_NATIVE = (8, 9), (8, 0)  # Ada multiplies float8 e4m3, Ampere bfloat16
_MISSING = "reads no fp8 keys and values on any card"
_REFUSED = "reads no fp8 keys and values below compute capability 8.9"
_UNCOMPILED = "does not check what Triton then cannot compile: fp8 keys and values below compute capability 8.9"


def choose(want: Want) -> Backend | None:
    """Return the backend that the engine takes, or None where none supports the layer (it refuses to start)."""
    return choose_rocm(want) if want.card.amd else choose_cuda(want)


def unread(found: Backend, want: Want) -> str | None:
    """Say why the chosen backend does not read this KV dtype after all, None where it does.

    The choice goes by the dtype's name; Triton's layers look at the card when they are built, and no other backend is
    tried then. Source: the constructors of those layers in 0.17 to 0.33; before they looked, users saw the start die in
    the compiler (vLLM's issue 26431 and pull request 35720).
    """
    card = want.card
    rule = {"TRITON_MLA": card.triton_mla_fp8, "TRITON_ATTN": card.triton_fp8, "TRITON_ATTN_DIFFKV": card.triton_fp8}
    state = rule.get(found.name)
    says = {"missing": _MISSING, "uncompiled": _UNCOMPILED, "refused": _REFUSED}.get(state or "")
    if says is None:
        return None
    if want.kv_dtype.startswith("fp8"):
        native = bool(card.amd) or card.capability >= _FP8_NATIVE
        return None if native and state != "missing" else f"{found.name} of vLLM {card.release} {says}"
    if want.kv_dtype == "bfloat16" and not card.amd and card.capability < _BF16_NATIVE and state == "refused":
        return f"{found.name} of vLLM {card.release} reads no bfloat16 keys and values below compute capability 8.0"
    return None
