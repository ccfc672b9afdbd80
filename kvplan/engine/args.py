"""EngineArgs: the flags that move memory, under the engine's own names, checked once for every door.

The command line, `kvplan.plan(...)` and manifests all come through `engine_args`: it knows the short names, reads
sizes with units and refuses what it does not know. A value of None means "not given": the engine's own default
applies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from kvplan.errors import UsageError, near
from kvplan.units import parse_bytes

MAX_COUNT = 2**31
MAX_BYTES = 2**50
MAX_SPECULATIVE = 1024


@dataclass(frozen=True, slots=True)
class EngineArgs:
    """What a serve command may say about memory. Sizes are bytes, lengths tokens."""

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
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    # What the user knows better than any profile.
    gpu_memory: int | None = None
    weights: int | None = None
    activations: int | None = None
    cuda_graphs: int | None = None
    non_torch: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the values that differ from "not given", by name."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}

    @property
    def speculative_tokens(self) -> int:
        """num_speculative_tokens of the speculative config, 0 without one."""
        return (self.speculative_config or {}).get("num_speculative_tokens", 0)  # type: ignore[no-any-return]

    @property
    def world_size(self) -> int:
        """The number of GPUs that one deployment takes: TP x PP x DP."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size


ALIASES = {
    "tp": "tensor_parallel_size",
    "tp_size": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dp_size": "data_parallel_size",
    "dcp": "decode_context_parallel_size",
    "gpu_util": "gpu_memory_utilization",
    "kv_cache_memory": "kv_cache_memory_bytes",
    "context_length": "max_model_len",
}
_COUNTS = frozenset({
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size",
    "max_num_seqs", "max_num_batched_tokens", "num_gpu_blocks_override", "block_size",
})  # fmt: skip
_SIZES = frozenset({"kv_cache_memory_bytes", "gpu_memory", "weights", "activations", "cuda_graphs", "non_torch"})
_FLAGS = frozenset({
    "enable_expert_parallel", "enforce_eager", "enable_prefix_caching", "async_scheduling",
    "disable_hybrid_kv_cache_manager",
})  # fmt: skip
_DTYPES = {"half": "float16", "float": "float32"}
_MODEL_DTYPES = ("auto", "bfloat16", "float16", "float32")
_MAX_WORLD = 4096


def engine_args(given: Mapping[str, Any]) -> EngineArgs:
    """Check named values and return them as a record; raises UsageError, which names the flag."""
    known = {f.name for f in fields(EngineArgs)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        full = ALIASES.get(name, name)
        if full not in known:
            raise UsageError(f"unknown argument {name!r}", near(name, known | set(ALIASES)))
        if full in values:
            raise UsageError(f"{_flag(full)} is given twice")
        if value is not None:
            values[full] = _checked(full, value)
    args = EngineArgs(**values)
    if args.world_size > _MAX_WORLD:
        raise UsageError(f"{args.world_size:,} GPUs are more than kvplan plans for ({_MAX_WORLD:,})")
    return args


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _checked(name: str, value: Any) -> Any:
    for names, check in _CHECKS:
        if name in names:
            return check(name, value)
    if not isinstance(value, str) or not value or len(value) > 64:
        raise UsageError(f"{_flag(name)} takes a short name, not {_shown(value)}")
    if name == "dtype":
        value = _DTYPES.get(value, value)
        if value not in _MODEL_DTYPES:
            raise UsageError(f"--dtype {value!r} is unknown", f"one of {', '.join(_MODEL_DTYPES)}")
    return value


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{_flag(name)} is on or off, not {_shown(value)}")
    return value


def _length(name: str, value: Any) -> int | str:
    return "auto" if value in ("auto", -1, "-1") else _count(name, value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_HUMAN = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?([kmgKMG]?)", re.ASCII)


def _count(name: str, value: Any) -> int:
    """A count may be written as the engines read it: 32k is 32,000, 32K is 32,768."""
    if isinstance(value, str) and (found := _HUMAN.fullmatch(value.strip())) is not None:
        part = found[2] or ""
        count, rest = divmod(int(found[1] + part) * _SUFFIXES.get(found[3], 1), 10 ** len(part))
        value = value if rest else count
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
        raise UsageError(f"{_flag(name)} takes a whole number from 1 up, not {_shown(value)}")
    return value


def _size(name: str, value: Any) -> int:
    """A size is bytes as an integer (from Python, or the engine's own byte flag) or text with a unit."""
    if isinstance(value, str):
        digits_only = value.isascii() and value.isdigit() and len(value) <= 18
        counted = digits_only and (name == "kv_cache_memory_bytes" or value == "0")
        value = int(value) if counted else parse_bytes(value, _flag(name))
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_BYTES:
        raise UsageError(f"{_flag(name)} takes a size such as '16 GiB', not {_shown(value)}")
    return value


def _share(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not 0 < number <= 1:
        raise UsageError(f"{_flag(name)} takes a share of the memory above 0 and up to 1, not {_shown(value)}")
    return number


def _section(name: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{_flag(name)} takes a JSON object, not {_shown(value)}") from error
    if not isinstance(value, Mapping):
        raise UsageError(f"{_flag(name)} takes a JSON object, not {_shown(value)}")
    if name == "speculative_config":
        count = value.get("num_speculative_tokens", 0)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_SPECULATIVE:
            raise UsageError(
                f"num_speculative_tokens takes a whole number up to {MAX_SPECULATIVE}, not {_shown(count)}"
            )
    return value


_CHECKS: tuple[tuple[frozenset[str], Callable[[str, Any], Any]], ...] = (
    (_COUNTS, _count),
    (_SIZES, _size),
    (_FLAGS, _switch),
    (frozenset({"max_model_len"}), _length),
    (frozenset({"gpu_memory_utilization"}), _share),
    (frozenset({"speculative_config"}), _section),
)
