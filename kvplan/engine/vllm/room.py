"""Whether the card has the room that is asked for: at the first snapshot, and later for what is outside the budget."""

from __future__ import annotations

from math import floor

from kvplan.engine.vllm.launch import Launch
from kvplan.engine.vllm.residue import Residue, start_loss
from kvplan.planner import OVERFLOWS, Budget, KvFacts, Note
from kvplan.units import gib


def start_reason(launch: Launch, budget: Budget) -> Note | None:
    """Return the engine's first refusal: less memory is free at its start than it would use.

    Releases before 0.9 do not look. What is gone by then is the context of CUDA and the buffers of NCCL.
    """
    room = _room(launch, budget)
    if room is None or launch.release.snapshot == "none":
        return None
    memory, requested, loss = room
    free = memory - loss.bytes
    if requested <= free:
        return None
    share = launch.settings.gpu_memory_utilization
    return Note(
        "free_memory_below_request",
        f"{gib(free, 2)} of {gib(memory, 2)} are free at the start, less than the {gib(requested, 2)} of"
        f" --gpu-memory-utilization {share:g}",
        f"--gpu-memory-utilization {_cut(free / memory)} or less",
    )


def pool_warning(launch: Launch, budget: Budget, kv: KvFacts) -> Note | None:
    """Return the failure of a pool, given by hand, that finds no room beside the weights: counted, never allocated."""
    args, memory = launch.args, launch.memory_bytes
    flag = "--num-gpu-blocks-override" if args.num_gpu_blocks_override is not None else "--kv-cache-memory-bytes"
    given = args.num_gpu_blocks_override is not None or args.kv_cache_memory_bytes is not None
    if not given or memory is None or kv.num_blocks is None or kv.bytes_per_block is None:
        return None
    size = kv.num_blocks * kv.bytes_per_block
    others = sum(line.low for line in budget.lines if line.name != "kv_cache")
    if size + others <= memory:
        return None
    return Note(
        OVERFLOWS,
        f"a pool of {gib(size, 2)} beside {gib(others)} of weights and the rest is more than the card's"
        f" {gib(memory, 2)}: the engine counts it, and runs out of memory when it allocates it",
        f"a smaller {flag}",
    )


def later_warning(launch: Launch, budget: Budget) -> Note | None:
    """Return the failure that comes after the pool is made: graphs outside of the budget find no room."""
    room = _room(launch, budget)
    charged = launch.release.graphs_charged(v2=launch.settings.runner_v2)
    if room is None or charged or launch.args.enforce_eager or launch.args.cuda_graphs is not None:
        return None
    memory, requested, loss = room
    graphs = launch.graphs().actual
    left = memory - loss.bytes - requested
    if not 0 <= left < graphs:
        return None
    share = (memory - loss.bytes - graphs) / memory
    return Note(
        "graphs_may_not_fit",
        f"CUDA graphs of about {gib(graphs, 1)} lie outside of the budget, where {gib(left, 1)} are left",
        f"--gpu-memory-utilization {_cut(share)} leaves room for them" if share > 0 else "--enforce-eager",
    )


def _room(launch: Launch, budget: Budget) -> tuple[int, int, Residue] | None:
    """Return the card's memory, the engine's request and what is gone at the start; None without a known card."""
    memory, requested = launch.memory_bytes, budget.requested_bytes
    if launch.gpu is None or launch.args.gpu_memory is not None or memory is None or requested is None:
        return None
    ranks = max(launch.ranks, launch.args.pipeline_parallel_size)
    return memory, requested, start_loss(launch.release, launch.gpu, ranks)


def _cut(share: float) -> str:
    """Return a share with two digits, cut so that it still holds."""
    return f"{floor(share * 100) / 100:g}"
