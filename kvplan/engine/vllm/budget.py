"""How vLLM splits a card's memory on one rank: what it may use, what the model takes, what is left for the KV cache."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from kvplan.engine.vllm.allocator import allocator_lines
from kvplan.engine.vllm.charges import run_lines
from kvplan.engine.vllm.extras import draft_line, lora_line
from kvplan.engine.vllm.launch import Launch
from kvplan.engine.vllm.weights import weight_lines
from kvplan.ledger import Line, total
from kvplan.planner import Budget


def split_memory(launch: Launch) -> Budget:
    """Return the ledger of one rank, the one that prints; without a card and --gpu-memory, the lines that need none.

    The lines add up to `requested_bytes`, unless the pool was given. With pipeline stages the first prints, and
    `least_kv_bytes` is the pool of the stage that has least.
    """
    args, memory = launch.args, launch.memory_bytes
    model_lines = _measured(_model_lines(launch), launch)
    if memory is None:
        return Budget(None, args.kv_cache_memory_bytes, tuple(model_lines))
    requested = _requested(launch, memory)
    run = run_lines(launch, 0)
    lines = [*model_lines, *_measured(run, launch)]
    if launch.release.stands_for is not None:
        lines = [_widened(line) for line in lines]
    if args.kv_cache_memory_bytes is not None:
        pool = Line.certain("kv_cache", args.kv_cache_memory_bytes, "given", "--kv-cache-memory-bytes")
        return Budget(requested, args.kv_cache_memory_bytes, (*lines, pool))
    low, high = _interval(launch, requested)
    sure = all(line.basis in ("exact", "given") for line in lines) and low == high
    pool = Line(
        "kv_cache",
        requested - total(lines),
        low - sum(line.high for line in lines),
        high - sum(line.low for line in lines),
        "exact" if sure else "modelled",
        "what is left" if sure else f"what is left; {launch.release.calibration}",
    )
    first = total(run)
    most = max((total(run_lines(launch, stage)) for stage in _other_stages(launch)), default=first)
    least = pool.bytes - max(0, most - first)
    return Budget(requested, max(0, pool.bytes), (*lines, pool), least_kv_bytes=max(0, least))


def _model_lines(launch: Launch) -> list[Line]:
    """Return what loading takes: parameters, what they become, and what rides along."""
    args, item = launch.args, launch.settings.item_size
    lines = weight_lines(launch.model, args, launch.settings, launch.device)
    if args.weights is None:
        lines += allocator_lines(launch)
    if args.enable_lora:
        lines.append(lora_line(launch.model, launch.widths(), args, item, launch.layers))
    if launch.draft is not None:
        lines.append(draft_line(launch.draft, args, launch.settings))
    return lines


def _measured(lines: list[Line], launch: Launch) -> list[Line]:
    """Put what was observed on a card of the user's own in the place of what is modelled; what is given stays."""
    seen = {line.name: line for line in launch.observed}
    return [line if line.basis == "given" else seen.get(line.name, line) for line in lines]


def _widened(line: Line) -> Line:
    """Return a line of a release that is not known itself: twice the interval of the one in its place."""
    return replace(line, low=max(0, 2 * line.low - line.bytes), high=2 * line.high - line.bytes)


def _other_stages(launch: Launch) -> set[int]:
    """Return the pipeline stages that differ from the first: one in the middle, and the last."""
    stages = launch.args.pipeline_parallel_size
    return {min(1, stages - 1), stages - 1} - {0}


def _requested(launch: Launch, memory: int) -> int:
    share = memory * launch.settings.gpu_memory_utilization
    return ceil(share) if launch.release.rounds_up else int(share)


def _interval(launch: Launch, requested: int) -> tuple[int, int]:
    if launch.args.gpu_memory is not None or launch.gpu is None:
        return requested, requested
    return _requested(launch, launch.gpu.memory_low), _requested(launch, launch.gpu.memory_high)
