"""The flags that only SGLang has; what it shares with other engines is in kvplan.engine.args, under their names."""

from __future__ import annotations

from kvplan.record import dataclass


@dataclass(frozen=True, slots=True)
class SglangFlags:
    """SGLang's own flags; None means "not given". `attention_dp` is --attn-dp-size, or --dp-size with DP attention."""

    max_total_tokens: int | None = None
    max_prefill_tokens: int | None = None
    max_mamba_cache_size: int | None = None
    swa_full_tokens_ratio: float | None = None
    mamba_full_memory_ratio: float | None = None
    mamba_radix_cache_strategy: str = "auto"
    attention_backend: str | None = None
    moe_a2a_backend: str = "none"
    ep_size: int = 1
    attn_dp_size: int = 1
    enable_dp_attention: bool = False
    enable_multimodal: bool | None = None
    language_only: bool = False
    language_model_only: bool = False
    enable_unified_memory: bool = False
    disable_prefill_cuda_graph: bool = False
    disable_decode_cuda_graph: bool = False
    cuda_graph_max_bs_decode: int | None = None
    speculative_algorithm: str | None = None
    speculative_draft_model_path: str | None = None
    speculative_num_steps: int | None = None
    speculative_eagle_topk: int | None = None
    speculative_num_draft_tokens: int | None = None


NO_SGLANG_FLAGS = SglangFlags()
