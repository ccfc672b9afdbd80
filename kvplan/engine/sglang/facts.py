"""The figures of a Plan from what SGLang's start-up came to: the pools, the ledger, the settings, the warnings."""

from __future__ import annotations

from kvplan.engine.args import EngineArgs
from kvplan.engine.sglang.budget import Memory
from kvplan.engine.sglang.deepseek_v4 import geometry, request_states
from kvplan.engine.sglang.device import Device
from kvplan.engine.sglang.pools import Pool, Pools, index_bytes, token_bytes
from kvplan.engine.sglang.releases import Release
from kvplan.engine.sglang.served import Served
from kvplan.engine.sglang.settings import Settings
from kvplan.hardware import Gpu
from kvplan.ledger import Basis, Line
from kvplan.model.spec import ModelSpec
from kvplan.planner import Budget, GroupFacts, KvFacts, Note, PoolFacts
from kvplan.record import dataclass
from kvplan.units import GIB, MIB


@dataclass(frozen=True, slots=True)
class Sized:
    """What start-up came to: the pools, the running requests, and the GiB that went to each."""

    pools: Pools
    requests: int
    available: int
    states: Pool | None


def cell_bytes(served: Served, settings: Settings, device: Device, release: Release) -> int:
    """Return the bytes of a token in the one pool of a model without windows."""
    index = index_bytes(served, settings, hopper=device.sm == 9) if release.indexer_counted else 0
    # TRT-LLM's kernels on Blackwell and those of ROCm read FP8 latents without scales
    raw = device.rocm or (device.sm >= 10 and not (device.sm == 12 and served.architecture.startswith("GlmMoeDsa")))
    return int(token_bytes(served, settings, index=index, raw_latent=raw))


def facts(served: Served, settings: Settings, device: Device, release: Release, sized: Sized | None) -> KvFacts:
    """Return the pool in figures; without memory, those that need none."""
    plain = served.attention in ("grouped", "latent") and served.windows is None
    cell = cell_bytes(served, settings, device, release) if plain else None
    page, length = settings.backend.page_size, settings.context_len
    pools: tuple[Pool, ...] = ()
    if sized is not None:
        pools = sized.pools.pools
        if served.attention == "compressed":
            pools = (*pools, request_states(geometry(served.compressed, settings), sized.requests))
        if sized.states is not None:
            pools = (*pools, sized.states)
    tokens = sized.pools.tokens if sized is not None else None
    return KvFacts(
        bytes_per_token=cell,
        block_size=page,
        bytes_per_block=cell * page if cell is not None else None,
        num_blocks=tokens // page if tokens is not None else None,
        tokens=tokens,
        max_concurrency=tokens / length if tokens is not None else None,
        max_model_len=length,
        longest_model_len=min(tokens, length) if tokens is not None else None,
        max_running_requests=sized.requests if sized is not None else None,
        sequence_bytes=cell * -(-length // page) * page if cell is not None else None,
        groups=tuple(_group(pool, page, length) for pool in pools if pool.name in ("full", "window")),
        pools=tuple(PoolFacts(p.name, p.size, round(p.item_bytes) if p.item_bytes else None) for p in pools),
    )


def _group(pool: Pool, page: int, length: int) -> GroupFacts:
    return GroupFacts(pool.name, pool.layers, page, round(pool.item_bytes * page), -(-length // page))


def budget(settings: Settings, memory: Memory | None, weights: Line, sized: Sized | None) -> Budget:
    """Return the ledger of one rank; what the fraction leaves out is the engine's slack, and no line of it."""
    if memory is None:
        return Budget(None, None, (weights,))
    requested = int(memory.before * settings.fraction * GIB)
    lines = [memory.weights]
    if settings.reserve_mib:
        lines.append(Line.certain("multimodal", settings.reserve_mib * MIB, "exact", "held back for image features"))
    if sized is None:
        return Budget(requested, None, tuple(lines))
    if sized.states is not None:
        size = round((sized.states.size + 1) * sized.states.item_bytes)
        lines.append(Line.certain("states", size, "exact", f"{sized.states.size} slots of recurrent states"))
    others = sum(line.bytes for line in lines)
    spread = max(memory.weights.high - memory.weights.bytes, memory.weights.bytes - memory.weights.low) + memory.spread
    basis: Basis = "modelled" if spread else "exact"
    size = requested - others
    lines.append(Line("kv_cache", size, size - spread, size + spread, basis, "what is left"))
    return Budget(requested, sized.available, tuple(lines))


def shown(args: EngineArgs, settings: Settings) -> dict[str, object]:
    """Return the flags that decide memory, as the engine ends up with them."""
    return {
        "tp_size": args.tensor_parallel_size,
        "pp_size": args.pipeline_parallel_size,
        "dp_size": args.data_parallel_size,
        "mem_fraction_static": settings.fraction,
        "context_length": settings.context_len,
        "max_running_requests": settings.requests,
        "chunked_prefill_size": settings.chunk,
        "dtype": settings.dtype,
        "kv_cache_dtype": settings.kv_dtype,
        "attention_backend": settings.backend.name,
        "page_size": settings.backend.page_size,
        "disable_radix_cache": not settings.radix,
    }


def short(settings: Settings, sized: Sized | None) -> list[Note]:
    """Say where the pool is shorter than the context: the engine starts all the same, and turns long requests away."""
    if sized is None or sized.pools.tokens >= settings.context_len:
        return []
    return [
        Note(
            "context_exceeds_pool",
            f"the pool holds {sized.pools.tokens:,} tokens: requests of {settings.context_len:,} are turned away",
            f"--context-length {sized.pools.tokens} says so at the start",
        )
    ]


def warnings(model: ModelSpec, served: Served, args: EngineArgs, gpu: Gpu | None, release: Release) -> list[Note]:
    """Return what the reader should know of the release, the model, the card and the memory."""
    found = []
    if release.stands_for is not None:
        found.append(
            Note("release_not_read", f"SGLang {release.stands_for} is planned by the rules of {release.version}")
        )
    if not served.native:
        found.append(
            Note("architecture_not_native", f"SGLang has no class for {served.architecture}: its fallback is assumed")
        )
    if gpu is not None and gpu.assumed_among:
        found.append(
            Note(
                "gpu_assumed", f"several cards answer to that name; {gpu.name} is assumed", ", ".join(gpu.assumed_among)
            )
        )
    if args.free_before_load is None and gpu is not None:
        found.append(
            Note(
                "free_memory_modelled",
                "the memory that is free before the load comes from the card's profile",
                "--free-before-load and --free-after-load take what the engine's log prints",
            )
        )
    return found + [
        Note("field_assumed", f"{a.name} is not in the config: {a.value} is assumed", a.source) for a in model.assumed
    ]
