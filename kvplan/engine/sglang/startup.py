"""SGLang's start-up in its own order: refusals of the flags, memory, states, pools, running requests."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from kvplan.engine.args import EngineArgs
from kvplan.engine.sglang.budget import Memory, free_memory, weights_line
from kvplan.engine.sglang.deepseek_v4 import compressed_pools, geometry
from kvplan.engine.sglang.device import Device
from kvplan.engine.sglang.facts import Sized, budget, cell_bytes, facts, short, shown, warnings
from kvplan.engine.sglang.pools import (
    Pool,
    PoolRefused,
    Pools,
    plain_pool,
    slot_bytes,
    state_slots,
    window_pools,
)
from kvplan.engine.sglang.refusals import refusals
from kvplan.engine.sglang.releases import Release
from kvplan.engine.sglang.served import Served, serve, stage_of
from kvplan.engine.sglang.settings import Settings, resolve
from kvplan.engine.vllm.capacity import partition
from kvplan.hardware import Gpu
from kvplan.model.spec import ModelSpec
from kvplan.planner import Note, Plan
from kvplan.units import GIB

_FIXED_SLOTS = 512  # of the releases that do not split memory between states and tokens


def plan_sglang(
    model: ModelSpec, args: EngineArgs, gpu: Gpu | None, count: int, draft: ModelSpec | None, *, release: Release
) -> Plan:
    """Plan one SGLang deployment; a refused Plan holds the reasons, and what can be told all the same."""
    device = Device.of(gpu)
    served = _serve(model, args, release)
    settings = resolve(model, served, args, device, release, draft=draft)
    weights = weights_line(model, args, settings.dtype)
    memory = free_memory(args, gpu, weights)
    reasons = refusals(model, served, args, settings, device)
    sized: Sized | None = None
    if memory is not None and not reasons:
        try:
            stages = _stages(model, served, args, release)
            sized = min((_size(stage, settings, args, device, release, memory) for stage in stages), key=_tokens)
        except PoolRefused as found:
            reasons.append(Note(found.code, found.message, found.hint))
    return Plan(
        model=model,
        engine="sglang",
        engine_version=release.version,
        engine_settings=shown(args, settings),
        assumed=settings.assumed,
        gpu=gpu,
        gpu_count=count,
        budget=budget(settings, memory, weights, sized),
        weights_per_rank=weights.bytes if memory is None else memory.weights.bytes,
        kv=facts(served, settings, device, release, sized),
        verdict=None if memory is None else "refused" if reasons else "fits",
        reasons=tuple(reasons),
        warnings=(*warnings(model, served, args, gpu, release), *short(settings, sized)),
    )


def _serve(model: ModelSpec, args: EngineArgs, release: Release) -> Served:
    return serve(
        model,
        release,
        multimodal=True if args.sglang.enable_multimodal else None,
        split=not args.disable_hybrid_kv_cache_manager,
    )


def _stages(model: ModelSpec, served: Served, args: EngineArgs, release: Release) -> list[Served]:
    """Return what each pipeline stage keeps; the one that holds the fewest tokens decides for all.

    Slots of states are sized on every stage by the stage that has most of them.
    """
    if args.pipeline_parallel_size == 1:
        return [served]
    parts = partition(len(model.shape.layers), args.pipeline_parallel_size)
    found = [_serve(stage_of(model, stage), args, release) for stage in parts]
    most = max((stage.states for stage in found), key=len)
    attending = [stage for stage in found if stage.attention != "none"] or found
    return [replace(stage, states=most) for stage in attending]


def _tokens(sized: Sized) -> int:
    return sized.pools.tokens


# -- sizes ------------------------------------------------------------------------------------------------------------


def _size(
    served: Served, settings: Settings, args: EngineArgs, device: Device, release: Release, memory: Memory
) -> Sized:
    """Split what the weights leave; raises PoolRefused in the order in which the engine would."""
    slack = memory.before * (1 - settings.fraction)
    rest = memory.after - slack - settings.reserve_mib / 1024
    states: Pool | None = None
    if served.states:
        slot = slot_bytes(served.states, settings.attention_tensor, args.mamba_ssm_cache_dtype)
        if not slot:
            raise PoolRefused(
                "states_not_divisible",
                f"the states do not divide over {settings.attention_tensor} GPUs",
                "a smaller --tp-size",
            )
        asked = args.sglang.max_mamba_cache_size
        fixed = release.states == "fixed"
        if fixed and asked is None:
            asked = settings.requests or _FIXED_SLOTS
        slots = state_slots(settings, slot, rest, asked, padding=not fixed)
        rest, states = slots.rest, Pool("states", slots.count, slot, len(served.states))
    if rest <= 0:
        raise _no_room(settings, memory, release)
    available = int(rest * GIB)
    pools = _pools(served, settings, args, device, release, available)
    if pools.tokens <= 0:
        raise PoolRefused(
            "no_kv_memory", f"{rest:.2f} GiB are left, less than one page", "a larger --mem-fraction-static"
        )
    return Sized(pools, _requests(settings, pools.tokens, states), available, states)


_MORE = "more GPUs (--tp-size), a larger card, or smaller weights"


def _no_room(settings: Settings, memory: Memory, release: Release) -> PoolRefused:
    if memory.after <= 0:
        missing = f"{memory.before - memory.after:.2f} GiB a GPU, and {memory.before:.2f} GiB are free before the load"
        return PoolRefused("weights_exceed_memory", f"the weights do not fit the card: they take {missing}", _MORE)
    least = 1 - memory.after / memory.before if memory.before else 1.0
    message = (
        f"the weights leave no memory for the KV cache under a static fraction of {settings.fraction:g}:"
        f" {memory.after:.2f} of {memory.before:.2f} GiB are free after the load"
    )
    if least >= 1 or not release.weights_refused:
        return PoolRefused("weights_exceed_memory", message, _MORE)
    return PoolRefused(
        "weights_exceed_memory",
        message,
        f"--mem-fraction-static above {ceil(least * 1000) / 1000:.3f}, or more GPUs (--tp-size)",
    )


def _pools(
    served: Served, settings: Settings, args: EngineArgs, device: Device, release: Release, available: int
) -> Pools:
    cap = args.sglang.max_total_tokens
    if served.attention == "compressed":
        return compressed_pools(geometry(served.compressed, settings), settings, available, settings.context_len, cap)
    if served.windows is not None:
        return window_pools(served, settings, available, cap, by_layers=release.windows == "by_method")
    cell = cell_bytes(served, settings, device, release)
    return plain_pool(cell, available, settings, settings.context_len, cap, served.layers)


def _requests(settings: Settings, tokens: int, states: Pool | None) -> int:
    """Return the most running requests of one attention group."""
    if settings.requests is not None:
        found = min(max(1, settings.requests // settings.attention_dp), tokens // 2)
    else:
        found = min(max(min(int(tokens / settings.context_len * 512), 4096), 2048), tokens // 2)
    if states is not None:
        found = min(found, states.size // settings.slots_per_request)
        if found <= 0:
            raise PoolRefused(
                "states_too_few",
                f"{states.size} state slots serve no request: one takes {settings.slots_per_request}",
                "a larger --mem-fraction-static, or more GPUs",
            )
    return found
