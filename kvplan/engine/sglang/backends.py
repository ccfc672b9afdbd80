"""Which attention backend SGLang takes on a card, and the page size that it forces.

Source: SGLang 0.5.23, arg_groups/model_override_base.py (get_default_attn_backend), arg_groups/model_overrides and the
page constraints of arg_groups/overrides.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engine.sglang.device import Device
from kvplan.engine.sglang.served import Served
from kvplan.record import dataclass


@dataclass(frozen=True, slots=True)
class Backend:
    """The attention backend and the tokens of a page."""

    name: str
    page_size: int


@dataclass(frozen=True, slots=True)
class Wish:
    """What the flags and earlier decisions say: a backend or page size, whether states are buffered, drafts made."""

    backend: str | None
    page_size: int | None
    tensor: int
    buffered: bool
    radix: bool
    drafting: bool


def choose(served: Served, device: Device, wish: Wish) -> Backend:
    """Return the backend and its page size; a flag for a page that the backend cannot take is overridden, as there."""
    name = wish.backend or _default(served, device, wish)
    page = _page(served, device, name, wish.page_size)
    return Backend(name, page)


def _default(served: Served, device: Device, wish: Wish) -> str:
    found = _by_model(served, device, wish)
    if found is not None:
        return found
    if served.attention == "latent":
        if device.rocm:
            # aiter's latent kernels are built for 16 and 128 heads a rank
            return "aiter" if max(1, served.heads.kv_heads // wish.tensor) in (16, 128) else "triton"
        return {9: "fa3", 10: "flashinfer"}.get(device.sm, "triton")
    if device.rocm:
        return "aiter"
    if device.sm == 9:
        return "fa3"
    if device.sm == 10:
        return "trtllm_mha" if _even(served) else "fa4"
    return "triton" if _sinks(served) else "flashinfer"


_HYBRID = frozenset({
    "Qwen3NextForCausalLM", "Qwen3_5MoeForConditionalGeneration", "InternS2PreviewForConditionalGeneration",
    "InternS2MobiusForConditionalGeneration", "Qwen3_5ForConditionalGeneration",
})  # fmt: skip
_ON_SM100 = {
    "Lfm2ForCausalLM": "flashinfer", "Lfm2MoeForCausalLM": "flashinfer", "GraniteMoeHybridForCausalLM": "flashinfer",
    "FalconH1ForCausalLM": "triton", "JetNemotronForCausalLM": "triton", "JetVLMForConditionalGeneration": "triton",
    "MiniCPMV4_6ForConditionalGeneration": "triton", "MiniCPMV4_7ForConditionalGeneration": "triton",
    "NemotronHForCausalLM": "trtllm_mha", "NemotronHPuzzleForCausalLM": "trtllm_mha",
    "NemotronH_Omni_Reasoning_V3": "trtllm_mha", "MiMoV2ForCausalLM": "fa4", "MiMoV2FlashForCausalLM": "fa4",
    "KimiK3ForConditionalGeneration": "trtllm_mla", "MiniMaxM3SparseForCausalLM": "fa4",
    "MiniMaxM3SparseForConditionalGeneration": "fa4",
}  # fmt: skip
_SINKS_OR_CHUNKS: Mapping[int | None, str] = {0: "aiter", 9: "fa3", 10: "trtllm_mha", None: "triton"}
_GEMMA4: Mapping[int | None, str] = {10: "trtllm_mha", None: "triton"}
_STEP: Mapping[int | None, str] = {9: "fa3", 10: "fa4", 12: "fa4"}
_TRITON: Mapping[int | None, str] = {None: "triton"}
# By the major compute capability, 0 for ROCm; under None what holds for every other card
_BY_CARD: Mapping[str, Mapping[int | None, str]] = {
    "GptOssForCausalLM": _SINKS_OR_CHUNKS, "Llama4ForConditionalGeneration": _SINKS_OR_CHUNKS,
    "Llama4ForCausalLM": _SINKS_OR_CHUNKS,
    "Gemma4ForConditionalGeneration": _GEMMA4, "Gemma4ForCausalLM": _GEMMA4,
    "Gemma4UnifiedForConditionalGeneration": _GEMMA4,
    "Step3p5ForCausalLM": _STEP, "Step3p7ForConditionalGeneration": _STEP,
    "BeamForCausalLM": {9: "trtllm_mha", 10: "trtllm_mha", 12: "trtllm_mha"},
    "InklingForConditionalGeneration": {9: "fa4", 10: "fa4", None: "triton"},
    "DiffusionGemmaForBlockDiffusion": _TRITON, "EmbeddingGemma2Model": _TRITON, "HrmTextForCausalLM": _TRITON,
}  # fmt: skip
_FLASH_OR_TRITON = frozenset({
    "Exaone4ForCausalLM", "ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM", "Olmo2ForCausalLM",
})  # fmt: skip


def _by_model(served: Served, device: Device, wish: Wish) -> str | None:
    """Return the backend that a model's own override names, None where it has none for this card."""
    name, sm = served.architecture, device.sm
    if served.attention == "compressed":
        return "dsv4"
    if served.on("deepseek_family") and served.attention == "latent" and (served.sparse or sm == 10):
        return "dsa" if served.sparse else "trtllm_mla"
    if name in _HYBRID and sm == 10:
        # a page of 1 serves states that the radix cache keeps without a buffer
        unpaged = not wish.buffered and wish.radix and not wish.drafting
        return "triton" if unpaged or not _even(served) else "trtllm_mha"
    if name in _FLASH_OR_TRITON and not device.rocm:
        return "trtllm_mha" if sm == 10 else "fa3" if device.capability >= (8, 0) else "triton"
    by_card = _BY_CARD.get(name)
    if by_card is not None:
        return by_card.get(0 if device.rocm else sm, by_card.get(None))
    return _ON_SM100.get(name) if sm == 10 else None


def _even(served: Served) -> bool:
    """Say whether keys and values are equally wide, in windows too."""
    every = [served.heads, *([served.windows.heads] if served.windows is not None else [])]
    return all(heads.head_dim == heads.head_dim_v for heads in every)


def _sinks(served: Served) -> bool:
    return served.on("sinks") or (served.architecture.startswith("MiMoV2") and served.windows is not None)


def _page(served: Served, device: Device, backend: str, asked: int | None) -> int:
    if served.attention == "compressed":
        return 256
    if backend == "dsa":
        return 1 if device.rocm else 64 * (served.index.pooled if served.index is not None else 1)
    allowed = _PAGES.get(backend)
    if allowed is not None and asked not in allowed:
        return 64
    if backend == "fa4" and device.sm == 10 and served.attention == "grouped":
        return 128
    return asked or 1


_PAGES = {
    "flashmla": (64,), "trtllm_mla": (32, 64), "cutedsl_mla": (32, 64), "trtllm_mha": (16, 32, 64, 128),
    "hpc_ops": (64,),
}  # fmt: skip
