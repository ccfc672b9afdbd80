"""EngineArgs: the flags that move memory, read under the engine's own names, checked once for every door.

The command line, `kvplan.plan(...)` and manifests all come through `engine_args`: it knows the engine's names and the
short ones, reads sizes with units and refuses what it does not know; a flag of another engine is refused with the name
that this engine uses. A value of None means "not given": the engine's own default applies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Literal

from kvplan.engine.names import NAMES, SWITCHES, elsewhere, field_of
from kvplan.engine.sglang.flags import NO_SGLANG_FLAGS, SglangFlags
from kvplan.engine.tensorrt_llm.flags import NO_TENSORRT_LLM_FLAGS, TensorRtLlmFlags
from kvplan.errors import RefusedValue, UsageError, near
from kvplan.record import dataclass
from kvplan.units import human_integer, parse_bytes

MAX_COUNT = 2**31
MAX_BYTES = 2**50
MAX_SPECULATIVE = 1024


@dataclass(frozen=True, slots=True)
class EngineArgs:
    """What a serve command may say about memory. Sizes are bytes, lengths tokens.

    A field has vLLM's name; kvplan.engine.names says what the others call it (--max-model-len is --context-length
    there). What no other engine has is in a record of that engine.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    enable_expert_parallel: bool = False
    gpu_memory_utilization: float | None = None
    max_model_len: int | Literal["auto"] | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_cache_dtype: str = "auto"
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    block_size: int | None = None
    dtype: str = "auto"
    quantization: str | None = None
    enforce_eager: bool = False
    enable_prefix_caching: bool | None = None
    async_scheduling: bool | None = None
    disable_hybrid_kv_cache_manager: bool | None = None
    speculative_config: Mapping[str, Any] | None = None
    # What is changed in config.json before it is read; rope_scaling was a flag of its own in older releases
    hf_overrides: Mapping[str, Any] | None = None
    rope_scaling: Mapping[str, Any] | None = None
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    enable_lora: bool = False
    max_loras: int = 1
    max_lora_rank: int = 16
    # Which defaults apply, those of a server or of the engine's offline class; a first start, with nothing compiled yet
    usage: Literal["server", "offline"] = "server"
    cold: bool = False
    # What the server's environment allows: a context beyond the model's own
    allow_long_max_model_len: bool = False
    # What the user knows better than any profile.
    gpu_memory: int | None = None
    weights: int | None = None
    activations: int | None = None
    cuda_graphs: int | None = None
    non_torch: int | None = None
    free_before_load: int | None = None
    free_after_load: int | None = None
    sglang: SglangFlags = NO_SGLANG_FLAGS
    tensorrt_llm: TensorRtLlmFlags = NO_TENSORRT_LLM_FLAGS

    def given(self) -> dict[str, Any]:
        """Return the values that differ from "not given", by name."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}

    @property
    def speculative_tokens(self) -> int:
        """num_speculative_tokens of the speculative config, 0 without one."""
        return (self.speculative_config or {}).get("num_speculative_tokens", 0)  # type: ignore[no-any-return]

    @property
    def overrides(self) -> Mapping[str, Any]:
        """The fields of config.json that the flags change."""
        scaling = {"rope_scaling": self.rope_scaling} if self.rope_scaling is not None else {}
        return {**(self.hf_overrides or {}), **scaling}

    @property
    def world_size(self) -> int:
        """The number of GPUs that one deployment takes: TP x PP x DP."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size


_COUNTS = frozenset({
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size",
    "max_num_seqs", "max_num_batched_tokens", "num_gpu_blocks_override", "block_size", "max_loras", "max_lora_rank",
    "max_total_tokens", "max_prefill_tokens", "max_mamba_cache_size", "ep_size", "attn_dp_size",
    "cuda_graph_max_bs_decode", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens",
    "max_tokens", "moe_expert_parallel_size",
})  # fmt: skip
_SIZES = frozenset({
    "gpu_memory", "weights", "activations", "cuda_graphs", "non_torch", "free_before_load", "free_after_load",
})  # fmt: skip
_DTYPES = {"half": "float16", "float": "float32"}
_MODEL_DTYPES = ("auto", "bfloat16", "float16", "float32")
MAX_WORLD = 4096
_MAX_RATIO = 1000.0
_NO_NUMBER = -1.0
_ONE_OR_MORE = frozenset({
    "--tensor-parallel-size", "--pipeline-parallel-size", "--max-num-seqs", "--max-num-batched-tokens", "--tp-size",
    "--pp-size",
})  # fmt: skip
_MISSPELT = r"[-+.]?[0-9][0-9.,_]*[a-z%]{0,3}"
_MAX_WINDOWS = 2048


def engine_args(given: Mapping[str, Any], engine: str = "vllm") -> EngineArgs:
    """Check values under an engine's own names and return them as a record; raises UsageError, which names the flag."""
    names = NAMES[engine]
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name not in names:
            raise _unknown(name, engine)
        target = names[name]
        if target in found:
            raise UsageError(f"{_flag(name)} is given twice")
        found[target] = _checked(target, name, value)
    shared = {target.lstrip("!"): value for target, value in found.items() if "." not in target}
    own: dict[str, dict[str, Any]] = {"sglang": {}, "tensorrt_llm": {}}
    for target, value in found.items():
        record, _, field = target.rpartition(".")
        if record:
            own[record][field] = value
    sglang, tensorrt_llm = SglangFlags(**own["sglang"]), TensorRtLlmFlags(**own["tensorrt_llm"])
    args = EngineArgs(**shared, sglang=sglang, tensorrt_llm=tensorrt_llm)
    if args.sglang.enable_dp_attention:
        args = _with_attention_dp(args)
    if args.world_size > MAX_WORLD:
        raise UsageError(f"{args.world_size:,} GPUs are more than kvplan plans for ({MAX_WORLD:,})")
    return args


def _with_attention_dp(args: EngineArgs) -> EngineArgs:
    """--dp-size with DP attention divides the GPUs of TP among attention groups; it takes no more of them."""
    groups = args.sglang.attn_dp_size * args.data_parallel_size
    return replace(args, data_parallel_size=1, sglang=replace(args.sglang, attn_dp_size=groups))


def _unknown(name: str, engine: str) -> UsageError:
    other = elsewhere(name, engine)
    if other is None:
        return UsageError(f"unknown argument {name!r}", near(name, NAMES[engine]))
    owner, here = other
    hint = f"{engine} calls it {_flag(here)}" if here else f"{engine} has no such flag"
    return UsageError(f"{_flag(name)} is a flag of {owner}, not of {engine}", hint)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _checked(target: str, name: str, value: Any) -> Any:
    """Check a value for a target; messages name the flag as it was written."""
    field = field_of(target)
    flag = _flag(name)
    if name == "chunked_prefill_size" and value in (-1, "-1"):
        return -1  # SGLang's "no chunks"
    for names, check in _CHECKS:
        if field in names:
            checked = check(flag, value)
            return not checked if target.startswith("!") else checked
    if not isinstance(value, str) or not value or len(value) > 64:
        raise UsageError(f"{flag} takes a short name, not {_shown(value)}")
    if field == "dtype":
        value = _DTYPES.get(value, value)
        if value not in _MODEL_DTYPES:
            hint = f"one of {', '.join(_MODEL_DTYPES)}"
            told = f"--dtype {value!r} is unknown"
            raise RefusedValue(flag, told, hint) if value.islower() else UsageError(told, hint)
    if field == "usage" and value not in ("server", "offline"):
        raise UsageError(f"--usage {value!r} is unknown", "server or offline")
    return value


def _switch(flag: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{flag} is on or off, not {_shown(value)}")
    return value


def _length(flag: str, value: Any) -> int | str:
    return "auto" if value in ("auto", -1, "-1") else _count(flag, value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _human(value: Any) -> Any:
    number = human_integer(value) if isinstance(value, str) else None
    return value if number is None else number


def _count(flag: str, value: Any) -> int:
    value = _human(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
        told = f"{flag} takes a whole number from 1 up, not {_shown(value)}"
        # as a number it is out of kvplan's range or of the engine's: of these the engines themselves want one or more
        sure = flag in _ONE_OR_MORE and isinstance(value, int) and value < 1
        raise RefusedValue(flag, told) if sure or _misspelt(value) else UsageError(told)
    return value


def _misspelt(value: Any) -> bool:
    """Whether a text is a number gone wrong, which no engine reads; a placeholder of somebody's template is none."""
    return isinstance(value, float) or (isinstance(value, str) and re.fullmatch(_MISSPELT, value.strip()) is not None)


def _size(flag: str, value: Any, *, counted: bool = False) -> int:
    """A size is bytes as an integer (from Python) or text with a unit; `counted`: as the engines write it, too."""
    value = 0 if value == "0" else _human(value) if counted else value
    if isinstance(value, str):
        value = parse_bytes(value, flag)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_BYTES:
        raise UsageError(f"{flag} takes a size such as '16 GiB', not {_shown(value)}")
    return value


def _bytes(flag: str, value: Any) -> int:
    return _size(flag, value, counted=True)


def _share(flag: str, value: Any) -> float:
    number = _number(value)
    if not 0 < number <= 1:
        told = f"{flag} takes a share of the memory above 0 and up to 1, not {_shown(value)}"
        raise UsageError(told) if number == _NO_NUMBER and not _misspelt(value) else RefusedValue(flag, told)
    return number


def _ratio(flag: str, value: Any) -> float:
    number = _number(value)
    if not 0 < number <= _MAX_RATIO:
        raise UsageError(f"{flag} takes a ratio above 0, not {_shown(value)}")
    return number


def _number(value: Any) -> float:
    """Return a number, -1 for what is none."""
    try:
        return _NO_NUMBER if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return _NO_NUMBER


def _windows(flag: str, value: Any) -> tuple[int, ...]:
    listed = value.strip("[] ").split(",") if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not 1 <= len(listed) <= _MAX_WINDOWS:
        raise UsageError(f"{flag} takes a list of lengths, not {_shown(value)}")
    return tuple(_count(flag, one) for one in listed)


def _section(flag: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{flag} takes a JSON object, not {_shown(value)}") from error
    if not isinstance(value, Mapping):
        raise UsageError(f"{flag} takes a JSON object, not {_shown(value)}")
    found: Mapping[str, Any] = value
    return found


def _speculative(flag: str, value: Any) -> Mapping[str, Any]:
    section = _section(flag, value)
    count = section.get("num_speculative_tokens", 0)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_SPECULATIVE:
        raise UsageError(f"num_speculative_tokens takes a whole number up to {MAX_SPECULATIVE}, not {_shown(count)}")
    return section


_CHECKS: tuple[tuple[frozenset[str], Callable[[str, Any], Any]], ...] = (
    (_COUNTS, _count),
    (_SIZES, _size),
    (SWITCHES, _switch),
    (frozenset({"kv_cache_memory_bytes"}), _bytes),
    (frozenset({"max_model_len"}), _length),
    (frozenset({"gpu_memory_utilization", "swa_full_tokens_ratio"}), _share),
    (frozenset({"mamba_full_memory_ratio"}), _ratio),
    (frozenset({"max_attention_window"}), _windows),
    (frozenset({"speculative_config"}), _speculative),
    (frozenset({"hf_overrides", "rope_scaling"}), _section),
)
