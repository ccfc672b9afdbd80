"""What TensorRT-LLM prints at its start: the PyTorch backend (1.x), and the C++ runtime's older lines.

The pool is a share of what is left after weights, activations and graphs, and the log prints all of these: so the rule
itself is checked on the log's own figures, beside what kvplan predicts for the card.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kvplan.audit.compare import Row
from kvplan.audit.engines import Wording
from kvplan.audit.log import StartLog
from kvplan.planner import Plan
from kvplan.units import GIB

_SIZE = r"(-?[0-9]{1,6}(?:\.[0-9]{1,6})?)\s?GiB"
_COUNT = r"([0-9][0-9,]{0,14})"
_GAP = r".{0,400}?"  # bounded: a line of a stranger may repeat its first words for ever
_PEAK = rf"Peak memory during memory usage profiling{_GAP}"
_OLD = rf"Memory usage when calculating max tokens in paged kv ?cache{_GAP}"

_FIGURES = {
    "load_gib": (rf"Memory used after loading model weights \(inside torch\)[^:]*: {_SIZE}",),
    "outside_gib": (rf"Memory used outside torch[^:]*: {_SIZE}",),
    "peak_gib": (rf"{_PEAK}\(torch \+ non-torch\): {_SIZE}",),
    "kv_gib": (
        rf"Allocated {_SIZE} for max tokens in paged KV cache",
        rf"Estimated max memory in KV cache ?: {_SIZE}",
        rf"{_PEAK}calculating max tokens: {_SIZE}",
    ),
    "fraction": (r"fraction is set ([01]?\.[0-9]{1,6}|1)\b",),
    "token_bytes": (rf"kv size is {_COUNT}",),
    "total_gib": (rf"device total memory {_SIZE}", rf"{_OLD}total: {_SIZE}"),
    "spare_gib": (rf"{_OLD}available: {_SIZE}",),
    "temporary_gib": (rf"tmp kv_mem {_SIZE}",),
    "tokens": (rf"max tokens in paged KV cache \({_COUNT}\)", rf"Estimated max tokens in KV cache ?: {_COUNT}"),
    "blocks": (rf"primary blocks[=:] ?{_COUNT}", rf"blocks in KV cache primary pool: {_COUNT}"),
    "block_tokens": (rf"tokens per block[=:] ?{_COUNT}", rf"tokensPerBlock: {_COUNT}"),
}


def _flag(*names: str, value: str) -> re.Pattern[str]:
    written = "|".join(name.replace("_", "[_-]") for name in names)
    return re.compile(rf"(?<![A-Za-z_-])(?:--)?(?:{written})['\"]?(?:=|:|\s+)\s*['\"]?({value})")


_FLAGS = {
    "tp_size": _flag("tp_size", "tensor_parallel_size", value="[0-9]{1,4}"),
    "pp_size": _flag("pp_size", "pipeline_parallel_size", value="[0-9]{1,4}"),
    "max_seq_len": _flag("max_seq_len", value="[0-9]{1,9}"),
    "max_batch_size": _flag("max_batch_size", value="[0-9]{1,6}"),
    "max_num_tokens": _flag("max_num_tokens", value="[0-9]{1,9}"),
    "free_gpu_memory_fraction": _flag(
        "kv_cache_free_gpu_memory_fraction", "free_gpu_memory_fraction", value=r"0?\.[0-9]{1,6}|1\.0"
    ),
    "tokens_per_block": _flag("tokens_per_block", value="[0-9]{1,5}"),
}


def _rows(log: StartLog, made: Plan, _: Callable[..., Plan]) -> list[Row]:
    total = None if made.gpu is None else made.gpu.memory_bytes / GIB
    weights = None if made.weights_per_rank is None else made.weights_per_rank / GIB
    pool = next((line for line in made.budget.lines if line.name == "kv_cache"), None)
    printed = log.get("kv_gib")
    cells = [Row("kv cache", None, None, None, printed)]
    if pool is not None:
        cells = [Row("kv cache", pool.bytes / GIB, pool.low / GIB, pool.high / GIB, printed)]
    return [
        Row("card memory", total, None, None, log.get("total_gib")),
        Row("model", weights, None, None, log.get("load_gib")),
        Row("a token", made.kv.bytes_per_token, None, None, log.get("token_bytes"), "bytes"),
        *cells,
        Row("pool by its rule", _rule(log), None, None, printed),
        Row("tokens", made.kv.tokens, None, None, _tokens(log), "tokens"),
    ]


def _rule(log: StartLog) -> float | None:
    """Return the share of what is left, in GiB, from the log's own figures."""
    total, peak, fraction = log.get("total_gib"), log.get("peak_gib"), log.get("fraction")
    if total is not None and peak is not None and fraction is not None:
        return (total - peak + (log.get("temporary_gib") or 0.0)) * fraction
    return None


def _tokens(log: StartLog) -> float | None:
    blocks, size = log.get("blocks"), log.get("block_tokens")
    return log.get("tokens") or (blocks * size if blocks is not None and size is not None else None)


WORDING = Wording(
    figures={name: tuple(re.compile(text) for text in texts) for name, texts in _FIGURES.items()},
    flags=_FLAGS,
    release=re.compile(r"TensorRT[- ]LLM version:? ?([0-9]+\.[0-9]+(?:\.[0-9]+)?[0-9a-z.]{0,10})"),
    model=re.compile(r"(?:trtllm-serve (?:serve )?|model=|model_path=|--model[ =])['\"]?([A-Za-z0-9./][\w./-]{0,199})"),
    refusals={},
    lowest=frozenset({"blocks"}),
    measured=lambda _: {},
    rows=_rows,
)
