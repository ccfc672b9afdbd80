"""The flags that only TensorRT-LLM has; what it shares with other engines is in kvplan.engine.args."""

from __future__ import annotations

from kvplan.record import dataclass


@dataclass(frozen=True, slots=True)
class TensorRtLlmFlags:
    """TensorRT-LLM's own flags; None means "not given". `max_attention_window` is a window a layer, repeated."""

    max_tokens: int | None = None
    max_attention_window: tuple[int, ...] | None = None
    enable_attention_dp: bool = False
    moe_expert_parallel_size: int = 1


NO_TENSORRT_LLM_FLAGS = TensorRtLlmFlags()
