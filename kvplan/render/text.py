"""The plan as a terminal shows it: quiet, aligned, one verdict, one next step; `~` marks what is assumed."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.ledger import Line
from kvplan.model.describe import SHORT_DTYPE, describe
from kvplan.model.spec import ModelSpec
from kvplan.planner import Note, Plan
from kvplan.units import GIB, binary, gib, quantity

_WIDTH = 100
# A note that repeats for every assumed field says the same thing each time: the text shows this many
_MAX_NOTES = 6


def plan_text(plan: Plan) -> list[str]:
    """Return the lines of one plan."""
    lines = [*two_ends(f"{short_name(plan.model)}   {describe(plan.model)}", where(plan)), ""]
    if plan.budget.requested_bytes is not None:
        lines += [*_ledger(plan), ""]
    told = [*_cache(plan), *_verdict(plan), *_notes(plan.warnings)]
    return lines + [f"  {line}".rstrip() for line in told]


def where(plan: Plan) -> str:
    """Return the card and the engine: `1 x H200 141 GB, vLLM 0.33`."""
    release = plan.engine_version.removesuffix(".0")
    engine = f"{ENGINE_NAMES.get(plan.engine, plan.engine)} {release}"
    if plan.gpu is None:
        return engine
    mark = " ~" if plan.gpu.assumed_among else ""
    return f"{plan.gpu_count} x {plan.gpu.label}{mark}, {engine}"


ENGINE_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt-llm": "TensorRT-LLM"}


def short_name(model: ModelSpec) -> str:
    """Return the last part of a model's id or path."""
    return model.id.rstrip("/").removesuffix("/config.json").rpartition("/")[2] or model.id


def two_ends(left: str, right: str) -> list[str]:
    """Set two texts at the two ends of a line, or on two lines where they do not fit."""
    gap = _WIDTH - len(left) - len(right)
    return [f"{left}{' ' * gap}{right}"] if gap >= 3 else [left, right.rjust(_WIDTH)]


def _ledger(plan: Plan) -> list[str]:
    requested = plan.budget.requested_bytes or 0
    rows = [("budget", gib(requested), describe_share(plan))]
    shown = [line for line in plan.budget.lines if line.bytes or line.basis != "exact"]
    rows += [(_LABELS.get(line.name, line.name), _amount(line), _why(line)) for line in shown]
    width = max(len(amount.split()[0]) for _, amount, _ in rows)
    return [f"  {name:<14} {_right(amount, width)}   {why}".rstrip() for name, amount, why in rows]


# What each engine's share is a share of
_SHARES = {
    "vllm": ("gpu_memory_utilization", "a GPU"),
    "sglang": ("mem_fraction_static", "free before the load"),
    "tensorrt-llm": ("free_gpu_memory_fraction", "free after the warm-up"),
}


def describe_share(plan: Plan) -> str:
    """Say what the engine may use: `0.92 of 79.2 GiB a GPU`; empty where no card is known."""
    requested = plan.budget.requested_bytes
    name, of = _SHARES.get(plan.engine, ("", ""))
    share = plan.engine_settings.get(name)
    if requested is None:
        return ""
    if not isinstance(share, float) or not share:
        return gib(requested)
    shown = str(share) if len(str(share)) <= 5 else quantity(share, 4)
    return f"{shown} of {gib(round(requested / share))} {of}"


_LABELS = {
    "cuda_graphs": "cuda graphs",
    "cold_start": "cold start",
    "draft_weights": "draft weights",
    "encoder_cache": "encoder cache",
    "kv_cache": "kv cache",
    "non_torch": "non-torch",
    "post_load": "after load",
}


def _right(amount: str, width: int) -> str:
    number, _, rest = amount.partition(" ")
    return f"{number:>{width}} {rest:<5}"


def _amount(line: Line) -> str:
    """Return the GiB of a line, with `~` where it is no exact figure."""
    number = quantity(line.bytes / GIB, 1 if abs(line.bytes) >= GIB // 8 or not line.bytes else 2)
    return f"{number} GiB" if line.basis in ("exact", "given") else f"{number} ~"


def _why(line: Line) -> str:
    if line.basis != "modelled":
        return line.why
    return f"{line.why} ({quantity(line.low / GIB, 1)} to {quantity(line.high / GIB, 1)})"


def _cache(plan: Plan) -> list[str]:
    kv = plan.kv
    lines = []
    dtype = kv_dtype_name(plan)
    if kv.bytes_per_token:
        each = "and GPU" if plan.engine_settings.get("pipeline_parallel_size", 1) == 1 else "over all stages"
        lines.append(f"{binary(kv.bytes_per_token)} of KV cache a token {each} ({dtype}, {kv.bytes_per_token:,} bytes)")
    elif kv.bytes_per_token == 0:
        lines.append("this model keeps no KV cache")
    elif kv.groups:
        lines.append(f"KV cache in {len(kv.groups)} groups ({dtype}); a token has no constant size: see --explain")
    if kv.sequence_bytes:
        lines.append(f"one request of {kv.max_model_len:,} tokens: {binary(kv.sequence_bytes)} a GPU")
    return lines


def kv_dtype_name(plan: Plan) -> str:
    """Return the KV dtype in short: `bf16`, `fp8`."""
    dtype = str(plan.engine_settings.get("kv_cache_dtype", "auto"))
    if dtype == "auto":
        dtype = str(plan.engine_settings.get("dtype", "auto"))
    return SHORT_DTYPE.get(dtype, dtype)


def _verdict(plan: Plan) -> list[str]:
    kv = plan.kv
    if plan.verdict is None:
        return _refusals(plan.reasons)
    if plan.verdict == "refused":
        return ["", *_refusals(plan.reasons)]
    if kv.tokens is None or kv.max_concurrency is None:
        return ["", "fits: nothing is cached between steps"]
    requests = f"{quantity(kv.max_concurrency, 2)} requests of {kv.max_model_len:,}"
    copies = plan.engine_settings.get("data_parallel_size") or 1
    if copies > 1:
        requests += f", on each of {copies} engines"
    verdict = verdict_word(plan)
    blocks = f"{kv.num_blocks:,} blocks of {kv.block_size}" if kv.num_blocks is not None and kv.block_size else ""
    if len(kv.groups) > 1 and blocks:  # tokens are the engine's requests times their length, not blocks times size
        return ["", f"{verdict}: {kv.tokens:,} tokens, which is {requests}; {blocks}", *next_step(plan)]
    within = f" in {blocks}" if blocks and kv.block_size != 1 else ""
    return ["", f"{verdict}: {kv.tokens:,} tokens{within}, {requests}", *next_step(plan)]


def verdict_word(plan: Plan) -> str:
    """Return `fits`, `starts`, `refused` or `-`: some engines start with a pool that holds no whole request.

    A pool given by hand that the card has no room for `runs out of memory`.
    """
    if plan.overflows:
        return "runs out of memory"
    held = plan.kv.max_concurrency
    return "starts" if plan.verdict == "fits" and held is not None and held < 1 else plan.verdict or "-"


def _refusals(reasons: Sequence[Note]) -> list[str]:
    lines = []
    for note in reasons:
        lines.append(f"refused: {note.message}")
        if note.hint:
            lines.append(f"next: {note.hint}")
    return lines


def next_step(plan: Plan) -> list[str]:
    """Return the one change that gives most, where there is a plain one."""
    kv, smaller = plan.kv, plan.smaller
    if kv.max_concurrency is not None and kv.max_running_requests and kv.max_concurrency > kv.max_running_requests:
        flag = _BATCH_FLAGS.get(plan.engine, "--max-num-seqs")
        return [f"next: {flag} {kv.max_running_requests} is what limits the batch at this length"]
    if smaller is None:
        return []
    times = quantity(smaller.times, 1)
    return [
        f"next: --kv-cache-dtype {smaller.dtype} holds about {'twice' if times == '2.0' else f'{times} times'} as many"
    ]


_BATCH_FLAGS = {"sglang": "--max-running-requests", "tensorrt-llm": "--max-batch-size"}


def _notes(notes: Sequence[Note]) -> list[str]:
    shown = [f"note: {note.message}{f' ({note.hint})' if note.hint else ''}" for note in notes[:_MAX_NOTES]]
    more = len(notes) - len(shown)
    return ([""] if shown else []) + shown + ([f"note: {more} more; --format json lists all"] if more else [])
