"""What each engine calls a flag: its own name to a field of EngineArgs, so that other engines' names are translated.

A target is a field, `!field` where the engine's flag says the opposite, or `engine.field` where no other engine has it.
The first name of a target is the one that messages use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvplan.engine.sglang.flags import SglangFlags
from kvplan.engine.tensorrt_llm.flags import TensorRtLlmFlags

_PARALLEL = {
    "tensor_parallel_size": "tensor_parallel_size", "pipeline_parallel_size": "pipeline_parallel_size",
    "data_parallel_size": "data_parallel_size", "tp": "tensor_parallel_size", "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
}  # fmt: skip
_SIZED = {"tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size", "dp_size": "data_parallel_size"}
_COMMON = ("kv_cache_dtype", "dtype", "quantization", "gpu_memory", "weights", "free_before_load", "free_after_load")
_MEASURED = ("activations", "cuda_graphs", "non_torch")


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


NAMES: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        **_PARALLEL,
        **_same(*(name for name in _COMMON if not name.startswith("free_")), *_MEASURED),
        **_same(
            "decode_context_parallel_size", "enable_expert_parallel", "gpu_memory_utilization", "max_model_len",
            "max_num_seqs", "max_num_batched_tokens", "kv_cache_memory_bytes", "num_gpu_blocks_override", "block_size",
            "enforce_eager", "enable_prefix_caching", "async_scheduling", "disable_hybrid_kv_cache_manager",
            "speculative_config", "hf_overrides", "rope_scaling",
            "mamba_cache_dtype", "mamba_ssm_cache_dtype", "enable_lora", "max_loras",
            "max_lora_rank", "usage", "cold",
        ),
        "dcp": "decode_context_parallel_size",
        "gpu_util": "gpu_memory_utilization",
        "kv_cache_memory": "kv_cache_memory_bytes",
    },
    "sglang": {
        **_SIZED,
        **_PARALLEL,
        **_same(*_COMMON),
        "json_model_override_args": "hf_overrides",
        "context_length": "max_model_len",
        "mem_fraction_static": "gpu_memory_utilization",
        "max_running_requests": "max_num_seqs",
        "chunked_prefill_size": "max_num_batched_tokens",
        "page_size": "block_size",
        "disable_cuda_graph": "enforce_eager",
        "disable_radix_cache": "!enable_prefix_caching",
        "disable_overlap_schedule": "!async_scheduling",
        "disable_hybrid_swa_memory": "disable_hybrid_kv_cache_manager",
        "mamba_ssm_dtype": "mamba_ssm_cache_dtype",
        "expert_parallel_size": "sglang.ep_size",
        **{name: f"sglang.{name}" for name in SglangFlags.__match_args__},
    },
    "tensorrt-llm": {
        **_SIZED,
        **_PARALLEL,
        **_same(*_COMMON, *_MEASURED),
        "max_seq_len": "max_model_len",
        "free_gpu_memory_fraction": "gpu_memory_utilization",
        "kv_cache_free_gpu_memory_fraction": "gpu_memory_utilization",
        "max_batch_size": "max_num_seqs",
        "max_num_tokens": "max_num_batched_tokens",
        "tokens_per_block": "block_size",
        "enable_block_reuse": "enable_prefix_caching",
        "ep_size": "tensorrt_llm.moe_expert_parallel_size",
        **{name: f"tensorrt_llm.{name}" for name in TensorRtLlmFlags.__match_args__},
    },
}  # fmt: skip
ENGINES = tuple(NAMES)
_ALIASES = {"trtllm": "tensorrt-llm", "trt-llm": "tensorrt-llm"}  # as its commands and images call it
# One role, two fields: an engine's flag and the one of another engine that comes nearest.
_NEAREST = {"num_gpu_blocks_override": "max_total_tokens", "speculative_config": "speculative_algorithm",
            "enable_expert_parallel": "ep_size", "max_tokens": "max_total_tokens", "max_total_tokens": "max_tokens",
            "kv_cache_memory_bytes": "max_total_tokens"}  # fmt: skip


# Flags that are on or off, by the field that they set.
SWITCHES = frozenset({
    "enable_expert_parallel", "enforce_eager", "enable_prefix_caching", "async_scheduling",
    "disable_hybrid_kv_cache_manager", "enable_lora", "cold", "enable_dp_attention", "enable_multimodal",
    "language_only", "language_model_only", "enable_unified_memory", "disable_prefill_cuda_graph",
    "disable_decode_cuda_graph", "enable_attention_dp",
})  # fmt: skip


def engine_id(text: str) -> str:
    """Return `engine` or `engine@release` under the engine's own id: `trtllm@1.2` is `tensorrt-llm@1.2`."""
    name, at, release = text.strip().partition("@")
    return _ALIASES.get(name, name) + at + release


def named(flag: str) -> str:
    """Return a flag as a name: `--tp-size` is `tp_size`."""
    return flag.removeprefix("--").replace("-", "_")


def field_of(target: str) -> str:
    """Return the field that a target sets, without its sign and its record."""
    return target.lstrip("!").rpartition(".")[2]


def switched(name: str, engines: Iterable[str]) -> bool:
    """Say whether a name is a flag without a value for the first of the engines that has it."""
    target = next(NAMES[engine][name] for engine in engines if name in NAMES[engine])
    return field_of(target) in SWITCHES


def own_name(target: str, engine: str) -> str | None:
    """Return what an engine calls a target, None where it has no such flag."""
    for name, held in NAMES[engine].items():
        if held.lstrip("!") == target.lstrip("!"):
            return name
    return None


def elsewhere(name: str, engine: str) -> tuple[str, str] | None:
    """Return (the engine that has a flag of this name, what `engine` calls it or ""), None where no engine has it."""
    for other in ENGINES:
        target = NAMES[other].get(name)
        if other == engine or target is None:
            continue
        near = own_name(target, engine) or _NEAREST.get(name, "")
        return other, near if near in NAMES[engine] else ""
    return None


# A value that one engine writes otherwise.
_VALUES = {("sglang", "kv_cache_dtype", "fp8"): "fp8_e4m3", ("tensorrt-llm", "kv_cache_dtype", "fp8_e4m3"): "fp8"}
# Shares of different things: of the card, of what is free before the load, of what is free after it.
_NOT_SHARED = frozenset({"gpu_memory_utilization"})


def flags_for(engine: str, flags: Mapping[str, Any], engines: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return flags as one of several compared engines takes them, and the names that it has no counterpart of."""
    found: dict[str, Any] = {}
    missing: list[str] = []
    for name, value in flags.items():
        here, there = _counterpart(name, engine, engines)
        if here is None:
            missing.append(name)
            continue
        flipped = there.startswith("!") != NAMES[engine][here].startswith("!")
        given = not value if flipped and isinstance(value, bool) else value
        found[here] = _VALUES.get((engine, here, given), given) if isinstance(given, str) else given
    return found, missing


def _counterpart(name: str, engine: str, engines: Sequence[str]) -> tuple[str | None, str]:
    """Return the name that an engine has for a flag of any of the engines, and the target that it was given for."""
    if name in NAMES[engine]:
        return name, NAMES[engine][name]
    target = next((NAMES[other][name] for other in engines if name in NAMES[other]), "")
    if not target or field_of(target) in _NOT_SHARED:
        return None, target
    return own_name(target, engine), target
