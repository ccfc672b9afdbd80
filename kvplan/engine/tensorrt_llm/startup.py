"""TensorRT-LLM's start-up: what a warm-up leaves free, times a share, in blocks; a long max_seq_len shrinks to fit."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from kvplan.engine.args import EngineArgs
from kvplan.engine.tensorrt_llm.budget import fraction_of, split
from kvplan.engine.tensorrt_llm.pools import WindowPool, fill, item_bytes, layer_pools
from kvplan.engine.tensorrt_llm.releases import Release
from kvplan.hardware import Gpu
from kvplan.model.spec import ModelSpec, State
from kvplan.planner import GroupFacts, KvFacts, Note, Plan, PoolFacts

_KV_DTYPES = ("auto", "fp8", "nvfp4")
_NO_LENGTH = 2048  # where the config gives none


def plan_tensorrt_llm(
    model: ModelSpec, args: EngineArgs, gpu: Gpu | None, count: int, draft: ModelSpec | None, *, release: Release
) -> Plan:
    """Plan one TensorRT-LLM deployment of its PyTorch backend; everything beyond bytes a token is modelled."""
    del draft  # its KV cache is small beside the model's, and the public code does not say how it is counted
    kv_dtype, dtype = _kv_dtype(model, args), _dtype(model, args)
    length, lowered = _length(model, args)
    tensor = 1 if args.tensorrt_llm.enable_attention_dp else args.tensor_parallel_size
    pools = layer_pools(
        model,
        item_bytes(kv_dtype, dtype),
        tensor,
        args.pipeline_parallel_size,
        args.tensorrt_llm.max_attention_window,
        length,
    )
    reasons = _refusals(model, args, gpu)
    budget = split(model, args, gpu, release, dtype)
    block = args.block_size or release.tokens_per_block
    warnings = lowered + _warnings(model, gpu, release)
    kv = _empty(pools, block, length)
    if budget.kv_bytes is not None and not reasons:
        available = budget.kv_bytes
        cap = args.tensorrt_llm.max_tokens
        if cap is not None:
            available = min(available, cap * sum(pool.token_bytes for pool in pools))
        filled = fill(pools, available, block, length)
        kv = _facts(filled, block, length, args.max_num_seqs or release.max_batch_size)
        if not kv.num_blocks:
            reasons.append(
                Note(
                    "no_kv_memory",
                    "nothing is left for the KV cache after the warm-up",
                    _more_room(model),
                )
            )
        elif kv.max_model_len < length:
            warnings.append(
                Note(
                    "max_seq_len_shrunk",
                    f"max_seq_len would be adjusted from {length:,} to {kv.max_model_len:,}: the pool holds no more",
                )
            )
    known = budget.requested_bytes is not None
    return Plan(
        model=model,
        engine="tensorrt-llm",
        engine_version=release.version,
        engine_settings={
            "tensor_parallel_size": args.tensor_parallel_size,
            "pipeline_parallel_size": args.pipeline_parallel_size,
            "free_gpu_memory_fraction": fraction_of(args, release),
            "max_seq_len": kv.max_model_len,
            "max_batch_size": args.max_num_seqs or release.max_batch_size,
            "max_num_tokens": args.max_num_batched_tokens or release.max_num_tokens,
            "tokens_per_block": block,
            "dtype": dtype,
            "kv_cache_dtype": kv_dtype,
        },
        assumed=tuple(name for name, field in _DEFAULTED.items() if getattr(args, field) is None),
        gpu=gpu,
        gpu_count=count,
        budget=budget,
        weights_per_rank=next(line.bytes for line in budget.lines if line.name == "weights"),
        kv=kv,
        verdict=("refused" if reasons else "fits") if known else None,
        reasons=tuple(reasons),
        warnings=tuple(warnings),
    )


_DEFAULTED = {
    "free_gpu_memory_fraction": "gpu_memory_utilization", "max_seq_len": "max_model_len",
    "max_batch_size": "max_num_seqs", "max_num_tokens": "max_num_batched_tokens", "tokens_per_block": "block_size",
}  # fmt: skip


# -- settings ---------------------------------------------------------------------------------------------------------


# Rope types whose factor the config's length holds already
_STRETCHED = frozenset({"su", "longrope", "llama3", "yarn"})


def _length(model: ModelSpec, args: EngineArgs) -> tuple[int, list[Note]]:
    """Return max_seq_len, which a model's own limit lowers with a warning (model_engine.py of 1.0 to 1.2)."""
    factors = [rope.factor for rope in model.length.ropes if rope.factor and rope.kind not in _STRETCHED]
    limit = ceil(model.length.limit * (factors or [1.0])[-1]) if model.length.limit else None
    if not isinstance(args.max_model_len, int):
        return limit or _NO_LENGTH, []
    asked = args.max_model_len
    if limit is None or asked <= limit:
        return asked, []
    message = f"max_seq_len {asked} is larger than what the model supports: TensorRT-LLM sets it to {limit}"
    return limit, [Note("max_seq_len_lowered", message, f"--max-seq-len {limit}")]


def _kv_dtype(model: ModelSpec, args: EngineArgs) -> str:
    """Return the KV dtype: a checkpoint's own declaration is followed."""
    declared = model.quantization.kv_dtype if model.quantization is not None else None
    return (declared or "auto") if args.kv_cache_dtype == "auto" else args.kv_cache_dtype


def _dtype(model: ModelSpec, args: EngineArgs) -> str:
    wanted = model.dtype if args.dtype == "auto" else args.dtype
    return "bfloat16" if wanted == "float32" and args.dtype == "auto" else wanted


# -- figures ----------------------------------------------------------------------------------------------------------


def _empty(pools: tuple[WindowPool, ...], block: int, length: int) -> KvFacts:
    facts = _facts(pools, block, length, None)
    return replace(
        facts, num_blocks=None, tokens=None, max_concurrency=None, longest_model_len=None, max_model_len=length
    )


def _facts(pools: tuple[WindowPool, ...], block: int, length: int, sequences: int | None) -> KvFacts:
    """Return the figures of the pools; with windows, tokens are those of the pool that keeps all of a request."""
    if not pools:
        return KvFacts(0, block, None, 0, None, None, length, None, sequences, 0, ())
    first = pools[0]
    tokens = first.blocks * block
    if first.window is None and tokens:
        length = min(length, tokens)
    needed = [-(-min(length, pool.window or length) // block) for pool in pools]
    held = min(pool.blocks / count for pool, count in zip(pools, needed, strict=True))
    each = sum(pool.token_bytes for pool in pools) if len(pools) == 1 and first.window is None else None
    return KvFacts(
        bytes_per_token=each,
        block_size=block,
        bytes_per_block=each * block if each is not None else None,
        num_blocks=sum(pool.blocks for pool in pools),
        tokens=tokens,
        max_concurrency=held,
        max_model_len=length,
        longest_model_len=length,
        max_running_requests=sequences,
        sequence_bytes=sum(pool.token_bytes * block * count for pool, count in zip(pools, needed, strict=True)),
        groups=tuple(
            GroupFacts(
                "full" if pool.window is None else "sliding_window", pool.layers, block, pool.token_bytes * block, count
            )
            for pool, count in zip(pools, needed, strict=True)
        ),
        pools=tuple(
            PoolFacts("full" if pool.window is None else f"window_{pool.window}", pool.blocks * block, pool.token_bytes)
            for pool in pools
        ),
    )


# -- what is said -----------------------------------------------------------------------------------------------------


def _refusals(model: ModelSpec, args: EngineArgs, gpu: Gpu | None) -> list[Note]:
    found = []
    if args.kv_cache_dtype not in _KV_DTYPES:
        found.append(
            Note(
                "kv_cache_dtype_unsupported",
                f"TensorRT-LLM has no KV cache dtype {args.kv_cache_dtype}",
                f"one of {', '.join(_KV_DTYPES)}",
            )
        )
    if args.kv_cache_dtype == "nvfp4" and gpu is not None and (gpu.compute_capability or (0, 0)) < (10, 0):
        found.append(Note("kv_cache_dtype_unsupported", "an NVFP4 KV cache needs a Blackwell card", "fp8"))
    if gpu is not None and gpu.vendor != "nvidia":
        found.append(Note("gpu_unsupported", f"TensorRT-LLM runs on NVIDIA cards alone, not on {gpu.label}"))
    heads = model.shape.heads
    if heads and heads % args.tensor_parallel_size:
        found.append(
            Note(
                "heads_not_divisible",
                f"{heads} attention heads do not divide by {args.tensor_parallel_size}",
                "a --tensor-parallel-size that divides them",
            )
        )
    return found


def _more_room(model: ModelSpec) -> str:
    states = any(isinstance(cache, State) for cache in model.shape.caches())
    fewer = "a smaller --max-batch-size, which states are held for, " if states else ""
    return f"{fewer}more GPUs (--tp-size), a larger card, or smaller weights"


def _warnings(model: ModelSpec, gpu: Gpu | None, release: Release) -> list[Note]:
    found = [
        Note(
            "engine_modelled",
            "TensorRT-LLM is modelled on its public code and logs: take the figures with their ranges",
        )
    ]
    if release.stands_for is not None:
        found.append(
            Note("release_not_read", f"TensorRT-LLM {release.stands_for} is planned by the rules of {release.version}")
        )
    if gpu is not None and gpu.assumed_among:
        found.append(
            Note(
                "gpu_assumed", f"several cards answer to that name; {gpu.name} is assumed", ", ".join(gpu.assumed_among)
            )
        )
    return found + [
        Note("field_assumed", f"{a.name} is not in the config: {a.value} is assumed", a.source) for a in model.assumed
    ]
