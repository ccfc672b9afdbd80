"""TensorRT-LLM's memory on one rank: what the warm-up leaves, and the share of it that the KV cache takes."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from kvplan.engine.args import EngineArgs
from kvplan.engine.tensorrt_llm.releases import Release
from kvplan.engine.vllm.capacity import partition
from kvplan.engine.vllm.states import state_parts
from kvplan.hardware import Gpu
from kvplan.ledger import Basis, Line, total
from kvplan.model.spec import ModelSpec, State
from kvplan.model.weights import Ranks, weigh
from kvplan.planner import Budget
from kvplan.units import MIB


def fraction_of(args: EngineArgs, release: Release) -> float:
    """Return the share of free memory that the KV cache takes."""
    return args.gpu_memory_utilization or release.free_gpu_memory_fraction


def split(model: ModelSpec, args: EngineArgs, gpu: Gpu | None, release: Release, dtype: str) -> Budget:
    """Return the ledger of one rank. The share is of what the warm-up leaves, so the lines before it are not in it."""
    weights = _weights(model, args, dtype)
    memory = args.gpu_memory if args.gpu_memory is not None else (gpu.memory_bytes if gpu is not None else None)
    warm = [_activations(model, args, release), _graphs(args, release), *_states(model, args, release, dtype)]
    used = [*warm, _non_torch(args, gpu, release)]
    if args.free_after_load is not None:
        free, taken = args.free_after_load, warm
    elif args.free_before_load is not None:
        free, taken = args.free_before_load, [weights, *warm]
    elif memory is not None:
        free, taken = memory, [weights, *used]
    else:
        return Budget(None, None, (weights, *warm))
    left = max(0, free - total(taken))
    share = fraction_of(args, release)
    size = int(left * share)
    low = int(max(0, free - sum(line.high for line in taken)) * share)
    high = int(max(0, free - sum(line.low for line in taken)) * share)
    basis: Basis = "exact" if all(line.basis in ("exact", "given") for line in taken) else "modelled"
    pool = Line("kv_cache", size, low, high, basis, f"{share:g} of what the warm-up leaves")
    return Budget(size, size, (weights, *used, pool))


def _weights(model: ModelSpec, args: EngineArgs, dtype: str) -> Line:
    if args.weights is not None:
        return Line.certain("weights", args.weights, "given", "--weights")
    ranks = Ranks(
        tensor=args.tensor_parallel_size,
        data=1,
        expert_parallel=args.tensorrt_llm.moe_expert_parallel_size > 1,
        stages=tuple(partition(len(model.shape.layers), args.pipeline_parallel_size)),
    )
    line = weigh(model, ranks, dtype=dtype, asked=args.quantization).line
    # vLLM's layouts of the same tensors; this engine's padding and fusion are not known
    return replace(line, low=line.low * 97 // 100, high=line.high * 105 // 100, basis="modelled")


def _activations(model: ModelSpec, args: EngineArgs, release: Release) -> Line:
    if args.activations is not None:
        return Line.certain("activations", args.activations, "given", "--activations")
    tokens = args.max_num_batched_tokens or release.max_num_tokens
    width = (model.intermediate_size or 4 * model.hidden_size) // args.tensor_parallel_size
    size = tokens * (6 * model.hidden_size + 3 * width) * 2
    return Line("activations", size, size // 2, 2 * size, "modelled", f"a warm-up of {tokens} tokens")


def _graphs(args: EngineArgs, release: Release) -> Line:
    if args.cuda_graphs is not None:
        return Line.certain("cuda_graphs", args.cuda_graphs, "given", "--cuda-graphs")
    size, low, high = release.cuda_graphs_mib
    return Line("cuda_graphs", size * MIB, low * MIB, high * MIB, "modelled", "captured decode graphs")


def _states(model: ModelSpec, args: EngineArgs, release: Release, dtype: str) -> list[Line]:
    """Return the recurrent states of as many requests as run at once and of one that pads graphs; none without states.

    Tensors of their own, taken before the pool (mamba_cache_manager.py of 1.0); later releases may keep them in it.
    """
    states = [cache for cache in model.shape.caches() if isinstance(cache, State)]
    if not states:
        return []
    tensor = 1 if args.tensorrt_llm.enable_attention_dp else args.tensor_parallel_size
    parts = [part for state in states for part in state_parts(state, tensor, 0, dtype)]
    slot = sum(prod(part.shape) * part.item for part in parts) // args.pipeline_parallel_size
    slots = (args.max_num_seqs or release.max_batch_size) + 1
    why = f"states of {slots:,} requests, --max-batch-size and one; 0 where they are in the pool"
    return [Line("states", slot * slots, 0, slot * slots, "modelled", why)]


def _non_torch(args: EngineArgs, gpu: Gpu | None, release: Release) -> Line:
    if args.non_torch is not None:
        return Line.certain("non_torch", args.non_torch, "given", "--non-torch")
    lost = gpu.start_loss_bytes if gpu is not None else 0
    size, low, high = (lost + part * MIB for part in release.non_torch_mib)
    return Line("non_torch", size, low, high, "modelled", "the CUDA context, NCCL and libraries")
