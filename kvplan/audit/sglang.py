"""What SGLang prints at its start. Its "GB" are GiB: it divides by 2**30.

The pool is a share of what is free before the load, less what the load takes; so it is predicted from the free memory
that the log itself prints, and the interval is what two printed digits round away.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kvplan.audit.compare import Row
from kvplan.audit.engines import Wording
from kvplan.audit.figures import COUNT, GAP, NUMBER, wordings
from kvplan.audit.flags import flag
from kvplan.audit.log import StartLog
from kvplan.planner import Plan
from kvplan.units import GIB

_SIZE = rf"{NUMBER}\s?GB"
_ROUNDED = 0.005  # GiB, half of the last digit
_BEGIN, _END = "Load weight begin.", "Load weight end."
_POOL, _STATES = "KV Cache is allocated.", "Mamba Cache is allocated."

_FIGURES = wordings(
    {
        "free_gib": ((_BEGIN, rf"Load weight begin\. avail mem={_SIZE}"),),
        "left_gib": ((_END, rf"Load weight end\.{GAP}avail mem={_SIZE}"),),
        "load_gib": ((_END, rf"Load weight end\.{GAP}mem usage={_SIZE}"),),
        "k_gib": (
            (_POOL, rf"KV Cache is allocated\.{GAP}\bK size: {_SIZE}"),
            (_POOL, rf"KV Cache is allocated\.{GAP}KV size: {_SIZE}"),
        ),
        "v_gib": ((_POOL, rf"KV Cache is allocated\.{GAP}\bV size: {_SIZE}"),),
        "conv_gib": ((_STATES, rf"Mamba Cache is allocated\.{GAP}conv_state size: {_SIZE}"),),
        "state_gib": ((_STATES, rf"Mamba Cache is allocated\.{GAP}ssm_state size: {_SIZE}"),),
        "window_tokens": (
            ("Use sliding window memory pool.", rf"Use sliding window memory pool\.{GAP}swa_layer_tokens={COUNT}"),
        ),
        "tokens": (
            ("max_total_num_tokens=", rf"max_total_num_tokens={COUNT}"),
            (_POOL, rf"KV Cache is allocated\.{GAP}#tokens: {COUNT}"),
        ),
        "running": (("max_running_requests=", rf"max_running_requests={COUNT}"),),
        "graphs_gib": ((" graph end.", rf"Capture (?:decode )?(?:cuda|CUDA) graph end\.{GAP}mem usage={_SIZE}"),),
    }
)

_FLAGS = {
    "tp_size": flag("tp_size", "tensor_parallel_size", "tp", value="[0-9]{1,4}"),
    "pp_size": flag("pp_size", "pipeline_parallel_size", "pp", value="[0-9]{1,4}"),
    "mem_fraction_static": flag("mem_fraction_static", value=r"0?\.[0-9]{1,20}|1\.0"),
    "context_length": flag("context_length", "context_len", value="[0-9]{1,9}"),
    "chunked_prefill_size": flag("chunked_prefill_size", value="[0-9]{1,9}"),
    "kv_cache_dtype": flag("kv_cache_dtype", value="[a-z][a-z0-9_]{1,20}"),
    "page_size": flag("page_size", value="[0-9]{1,5}"),
}


def _rows(log: StartLog, made: Plan, again: Callable[..., Plan]) -> list[Row]:
    profile = again()
    fraction, requested = profile.engine_settings.get("mem_fraction_static"), profile.budget.requested_bytes
    start = requested / fraction / GIB if requested is not None and isinstance(fraction, float) else None
    weights = None if profile.weights_per_rank is None else profile.weights_per_rank / GIB
    plans = [again(**_memory(log, -_ROUNDED)), made, again(**_memory(log, _ROUNDED))]
    pools = [None if at.budget.kv_bytes is None else at.budget.kv_bytes / GIB for at in plans]
    tokens: list[float | None] = [at.kv.tokens for at in plans]
    parts = [part for name in ("k_gib", "v_gib", "conv_gib", "state_gib") if (part := log.get(name)) is not None]
    return [
        Row("free at start", start, None, None, _free(log)),
        Row("model", weights, None, None, log.get("load_gib")),
        _between("kv cache", pools, sum(parts) if parts else None, "GiB"),
        _between("tokens", tokens, log.get("tokens"), "tokens"),
        Row("running", made.kv.max_running_requests, None, None, log.get("running"), "count"),
    ]


def _free(log: StartLog) -> float | None:
    """Return what was free before the load, which a log that starts late gives as what was left and what was taken."""
    left, load = log.get("left_gib"), log.get("load_gib")
    taken = None if left is None or load is None else left + load
    return log.get("free_gib") or taken


def _memory(log: StartLog, shift: float = 0.0) -> dict[str, int]:
    """Return the memory before and after the load as flags, in bytes, `shift` GiB towards a larger pool.

    The pool is left - (1 - fraction) x free: it is largest where left is rounded down in print, and free up.
    """
    free, left = _free(log), log.get("left_gib")
    if free is None or left is None or not 0 < left <= free:
        return {}
    return {"free_before_load": round((free - shift) * GIB), "free_after_load": round((left + shift) * GIB)}


def _between(name: str, values: list[float | None], printed: float | None, unit: str) -> Row:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return Row(name, None, None, None, printed, unit)
    return Row(name, known[1], min(known), max(known), printed, unit)


WORDING = Wording(
    figures=_FIGURES,
    words=("version", "model", "glang"),
    flags=_FLAGS,
    release=re.compile(
        r"[Ss][Gg][Ll]ang(?:[ _]version)?[ :=v]{1,8}([0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}(?:\.post[0-9]{1,6})?)"
    ),
    model=re.compile(r"(?:model_path=|--model(?:-path)?[ =])['\"]?([A-Za-z0-9./][\w./-]{0,199})"),
    refusals={
        "weights_exceed_memory": "Loaded weights leave no GPU memory for the KV cache",
        "no_kv_memory": "Not enough memory. Please try to increase --mem-fraction-static",
    },
    lowest=frozenset({"free_gib", "left_gib"}),
    measured=_memory,
    rows=_rows,
)
