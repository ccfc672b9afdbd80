"""How vLLM splits a card's memory on one rank: what it may use, what the model takes, what is left for the KV cache."""

from __future__ import annotations

from math import ceil

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.settings import Settings
from kvplan.hardware import Gpu
from kvplan.ledger import Line, total
from kvplan.model.spec import ModelSpec
from kvplan.model.weights import estimate_weights
from kvplan.planner import Budget
from kvplan.units import GIB, MIB


def split_memory(model: ModelSpec, args: EngineArgs, settings: Settings, gpu: Gpu | None, count: int) -> Budget:
    """Return the ledger of one rank; without a card and without --gpu-memory, the lines that need none."""
    lines = [
        _weights(model, args, settings),
        _activations(model, args, settings),
        _given(args.non_torch, "non_torch")
        or Line("non_torch", 256 * MIB, 20 * MIB, (3 if count > 1 else 1) * GIB // 2, "modelled", "NCCL and libraries"),
        _graphs(args),
    ]
    memory = args.gpu_memory if args.gpu_memory is not None else (gpu.memory_bytes if gpu is not None else None)
    if memory is None:
        kv = args.kv_cache_memory_bytes
        return Budget(None, kv, tuple(lines[:1]))
    requested = ceil(memory * settings.gpu_memory_utilization)
    if args.kv_cache_memory_bytes is not None:
        pool = Line.certain("kv_cache", args.kv_cache_memory_bytes, "given", "--kv-cache-memory-bytes")
        return Budget(requested, args.kv_cache_memory_bytes, (*lines, pool))
    low, high = _interval(args, gpu, settings, requested)
    pool = Line(
        "kv_cache",
        requested - total(lines),
        low - sum(line.high for line in lines),
        high - sum(line.low for line in lines),
        "exact" if all(line.basis in ("exact", "given") for line in lines) and low == high else "modelled",
        "what is left",
    )
    return Budget(requested, max(0, pool.bytes), (*lines, pool))


def _interval(args: EngineArgs, gpu: Gpu | None, settings: Settings, requested: int) -> tuple[int, int]:
    if args.gpu_memory is not None or gpu is None:
        return requested, requested
    share = settings.gpu_memory_utilization
    return ceil(gpu.memory_low * share), ceil(gpu.memory_high * share)


def _given(size: int | None, name: str) -> Line | None:
    return None if size is None else Line.certain(name, size, "given", f"--{name.replace('_', '-')}")


def _weights(model: ModelSpec, args: EngineArgs, settings: Settings) -> Line:
    given = _given(args.weights, "weights")
    if given is not None:
        return given
    return estimate_weights(model, settings.item_size, args.tensor_parallel_size, args.pipeline_parallel_size)


def _activations(model: ModelSpec, args: EngineArgs, settings: Settings) -> Line:
    """The profile run's peak: logits in float32 with a sampler's copies, or the widest step of the forward pass."""
    given = _given(args.activations, "activations")
    if given is not None:
        return given
    rows = min(settings.max_num_seqs, settings.max_num_batched_tokens)
    logits = rows * model.vocab_size * (settings.item_size + 12)
    width = (model.intermediate_size or 4 * model.hidden_size) // args.tensor_parallel_size
    forward = settings.max_num_batched_tokens * (4 * model.hidden_size + 3 * width) * settings.item_size
    size = max(logits, forward)
    return Line("activations", size, size // 2, 2 * size, "modelled", f"{rows} sequences of logits")


def _graphs(args: EngineArgs) -> Line:
    given = _given(args.cuda_graphs, "cuda_graphs")
    if given is not None:
        return given
    if args.enforce_eager:
        return Line.certain("cuda_graphs", 0, "exact", "--enforce-eager")
    return Line("cuda_graphs", 600 * MIB, 200 * MIB, 2 * GIB, "modelled", "captured decode graphs")
