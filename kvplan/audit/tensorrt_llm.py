"""What TensorRT-LLM prints at its start: the PyTorch backend (1.x), and the C++ runtime's older lines.

The pool is a share of what is left after weights, activations and graphs, and the log prints all of these: so the rule
itself is checked on the log's own figures, beside what kvplan predicts for the card.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kvplan.audit.compare import Row, held
from kvplan.audit.engines import Wording
from kvplan.audit.figures import COUNT, GAP, NUMBER, wordings
from kvplan.audit.flags import flag
from kvplan.audit.log import StartLog
from kvplan.planner import Plan
from kvplan.units import GIB

_SIZE = rf"{NUMBER}\s?GiB"
_LOADED = "Memory used after loading model weights (inside torch)"
_PEAK, _PEAKED = "Peak memory during memory usage profiling", rf"Peak memory during memory usage profiling{GAP}"
_OLD = "Memory usage when calculating max tokens in paged kv"
_SPARE = rf"Memory usage when calculating max tokens in paged kv ?cache{GAP}"

_FIGURES = wordings(
    {
        "load_gib": ((_LOADED, rf"after loading model weights \(inside torch\)[^:]{{0,80}}: {_SIZE}"),),
        "outside_gib": (("Memory used outside torch", rf"Memory used outside torch[^:]{{0,80}}: {_SIZE}"),),
        "peak_gib": ((_PEAK, rf"{_PEAKED}\(torch \+ non-torch\): {_SIZE}"),),
        "kv_gib": (
            ("for max tokens in paged KV cache", rf"Allocated {_SIZE} for max tokens in paged KV cache"),
            ("Estimated max memory in KV cache", rf"Estimated max memory in KV cache ?: {_SIZE}"),
            (_PEAK, rf"{_PEAKED}calculating max tokens: {_SIZE}"),
        ),
        "fraction": (("fraction is set", r"fraction is set ([01]?\.[0-9]{1,6}|1)\b"),),
        "token_bytes": (("kv size is", rf"kv size is {COUNT}"),),
        "total_gib": (
            ("device total memory", rf"device total memory {_SIZE}"),
            (_OLD, rf"{_SPARE}total: {_SIZE}"),
        ),
        "spare_gib": ((_OLD, rf"{_SPARE}available: {_SIZE}"),),
        "temporary_gib": (("tmp kv_mem", rf"tmp kv_mem {_SIZE}"),),
        "tokens": (
            ("max tokens in paged KV cache (", rf"max tokens in paged KV cache \({COUNT}\)"),
            ("Estimated max tokens in KV cache", rf"Estimated max tokens in KV cache ?: {COUNT}"),
        ),
        "blocks": (
            ("primary blocks", rf"primary blocks[=:] ?{COUNT}"),
            ("blocks in KV cache primary pool", rf"blocks in KV cache primary pool: {COUNT}"),
        ),
        "block_tokens": (
            ("tokens per block", rf"tokens per block[=:] ?{COUNT}"),
            ("tokensPerBlock", rf"tokensPerBlock: {COUNT}"),
        ),
    }
)

_FLAGS = {
    "tp_size": flag("tp_size", "tensor_parallel_size", value="[0-9]{1,4}"),
    "pp_size": flag("pp_size", "pipeline_parallel_size", value="[0-9]{1,4}"),
    "max_seq_len": flag("max_seq_len", value="[0-9]{1,9}"),
    "max_batch_size": flag("max_batch_size", value="[0-9]{1,6}"),
    "max_num_tokens": flag("max_num_tokens", value="[0-9]{1,9}"),
    "free_gpu_memory_fraction": flag(
        "kv_cache_free_gpu_memory_fraction", "free_gpu_memory_fraction", value=r"0?\.[0-9]{1,20}|1\.0"
    ),
    "tokens_per_block": flag("tokens_per_block", value="[0-9]{1,5}"),
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
        held(made, "tokens", made.kv.tokens, _tokens(log), "tokens"),
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
    figures=_FIGURES,
    words=("version", "model"),
    flags=_FLAGS,
    release=re.compile(r"TensorRT[- ]LLM version:? ?([0-9]{1,6}\.[0-9]{1,6}(?:\.[0-9]{1,6})?[0-9a-z.]{0,10})"),
    model=re.compile(r"(?:trtllm-serve (?:serve )?|model=|model_path=|--model[ =])['\"]?([A-Za-z0-9./][\w./-]{0,199})"),
    refusals={},
    lowest=frozenset({"blocks"}),
    measured=lambda _: {},
    rows=_rows,
)
