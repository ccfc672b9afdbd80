"""vLLM's start-up in its own order: refusals, pages, groups, budget, blocks, fit check, the printed figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.budget import split_memory
from kvplan.engine.vllm.capacity import Pool, cut, partition
from kvplan.engine.vllm.grouping import CannotGroup, Group, group_layers
from kvplan.engine.vllm.layout import Layout, Refused, lay_out
from kvplan.engine.vllm.pages import WHOLE_LENGTH, Kind, Scheduling
from kvplan.engine.vllm.refusals import Asked, refusals
from kvplan.engine.vllm.releases import Release
from kvplan.engine.vllm.settings import Device, Settings, resolve
from kvplan.engine.vllm.speculation import draft_layers
from kvplan.hardware import Gpu
from kvplan.model.spec import ModelSpec
from kvplan.planner import Budget, GroupFacts, KvFacts, Note, Plan
from kvplan.units import gib


def plan_vllm(
    model: ModelSpec, args: EngineArgs, gpu: Gpu | None, count: int, draft: ModelSpec | None, *, release: Release
) -> Plan:
    """Plan one vLLM deployment; a refused Plan holds every reason, and the figures that can be told all the same."""
    device = Device.of(gpu)
    settings = resolve(model, args, device, release)
    reasons = [_note(found) for found in refusals(Asked(model, args, settings, release))]
    pool: Pool | None = None
    layout: Layout | None = None
    if not reasons:
        try:
            layout = lay_out(
                model,
                settings,
                device,
                args.tensor_parallel_size,
                draft=draft_layers(model, args, draft),
                block_size=args.block_size,
                dcp=args.decode_context_parallel_size,
            )
            pool = _pool(layout, settings, args, len(model.shape.layers))
        except Refused as found:
            reasons.append(_note(found))
        except CannotGroup as found:
            reasons.append(Note("cache_groups_unsupported", str(found)))
    budget = split_memory(model, args, settings, gpu, count)
    warnings = _warnings(model, args, gpu, device, budget)
    if pool is None:
        kv = _unknown(settings.max_model_len)
    else:
        available = _available(pool, args, budget)
        pool_reasons, kv = _count(pool, settings, available)
        reasons += pool_reasons
    known = gpu is not None or args.gpu_memory is not None or budget.kv_bytes is not None or kv.num_blocks is not None
    return Plan(
        model=model,
        engine="vllm",
        engine_version=release.version,
        engine_settings=_settings_shown(args, settings),
        assumed=settings.assumed,
        gpu=gpu,
        gpu_count=count,
        budget=budget,
        weights_per_rank=next((line.bytes for line in budget.lines if line.name == "weights"), None),
        kv=kv,
        verdict=("refused" if reasons else "fits") if known else None,
        reasons=tuple(reasons) if known or pool is None else (),
        warnings=tuple(warnings),
    )


def _note(found: Refused) -> Note:
    return Note(found.code, found.message, found.hint)


def _pool(layout: Layout, settings: Settings, args: EngineArgs, layers: int) -> Pool:
    groups = group_layers(layout.pages, packed=layout.packed, hybrid=settings.hybrid_manager)
    stages = partition(layers, args.pipeline_parallel_size)
    # draft layers come after the model's own and live on the last stage
    stages[-1] = range(stages[-1].start, max(layers, *(owner + 1 for owner in layout.owners), 1))
    scheduling = Scheduling(
        in_flight=settings.in_flight_tokens(args.pipeline_parallel_size),
        encoder_tokens=settings.max_num_batched_tokens,
        dcp=args.decode_context_parallel_size,
    )
    return Pool(groups, cut(groups, layout.owners, stages), scheduling)


def _available(pool: Pool, args: EngineArgs, budget: Budget) -> int | None:
    """Return the bytes a rank has for KV; an override of the block count takes the place of any measurement."""
    if args.num_gpu_blocks_override is not None:
        return args.num_gpu_blocks_override * pool.bytes_per_block
    return budget.kv_bytes


def _count(pool: Pool, settings: Settings, available: int | None) -> tuple[list[Note], KvFacts]:
    if not pool.groups:
        # nothing to cache: the engine keeps one placeholder block and prints no capacity
        return [], replace(_unknown(settings.max_model_len), num_blocks=1, bytes_per_token=0, sequence_bytes=0)
    length = settings.max_model_len
    reasons: list[Note] = []
    if available is not None:
        longest = pool.longest(length, available)
        if settings.auto_length and longest:
            length = longest
        elif not pool.fits(length, available):
            reasons.append(_no_room(pool, length, available, longest))
    else:
        longest = None
    blocks = pool.num_blocks(available) if available is not None and not reasons else None
    facts = KvFacts(
        bytes_per_token=_bytes_per_token(pool.groups),
        block_size=min(group.block_size for group in pool.groups),
        bytes_per_block=pool.bytes_per_block,
        num_blocks=blocks,
        tokens=pool.tokens(blocks, length) if blocks is not None else None,
        max_concurrency=pool.concurrency(blocks, length) if blocks is not None else None,
        max_model_len=length,
        longest_model_len=longest,
        max_running_requests=settings.max_num_seqs,
        sequence_bytes=pool.needed(length),
        groups=tuple(_facts(group, length, pool.scheduling) for group in pool.groups),
    )
    return reasons, facts


def _no_room(pool: Pool, length: int, available: int, longest: int) -> Note:
    """Return the engine's own refusal, with the longest length that fits."""
    usable = pool.usable(available)
    if usable <= 0:
        return Note(
            "no_kv_memory",
            f"nothing is left for the KV cache: {gib(available, 2)} are less than one block",
            "a larger --gpu-memory-utilization, more GPUs, or smaller weights",
        )
    hint = f"--max-model-len {longest} fits" if longest else "not even one token fits"
    return Note(
        "max_model_len_does_not_fit",
        f"one request of {length} tokens needs {gib(pool.needed(length), 2)} of KV cache, {gib(usable, 2)} are there",
        hint,
    )


def _bytes_per_token(groups: Sequence[Group]) -> int | None:
    """Return the bytes of a token over all layers, where that is a constant: whole-length layers of one block size."""
    pages = [page for group in groups for page in group.pages]
    if any(page.kind not in WHOLE_LENGTH for page in pages) or len({page.block_size for page in pages}) > 1:
        return None
    total, size = sum(page.bytes for page in pages), pages[0].block_size
    return total // size if total % size == 0 else None


def _facts(group: Group, length: int, scheduling: Scheduling) -> GroupFacts:
    kinds = {page.kind for page in group.pages}
    kind = kinds.pop() if len(kinds) == 1 else Kind.FULL
    same = len(set(group.pages)) == 1
    return GroupFacts(
        kind=kind.value,
        layers=len(group.layers),
        block_size=group.block_size,
        page_bytes=group.pages[0].bytes if same else group.bytes,
        blocks_per_request=group.blocks(length, scheduling),
    )


def _unknown(length: int) -> KvFacts:
    return KvFacts(None, None, None, None, None, None, length, None, None, None, ())


def _settings_shown(args: EngineArgs, settings: Settings) -> dict[str, object]:
    """Return the flags that decide memory, as the engine ends up with them."""
    return {
        "tensor_parallel_size": args.tensor_parallel_size,
        "pipeline_parallel_size": args.pipeline_parallel_size,
        "data_parallel_size": args.data_parallel_size,
        "gpu_memory_utilization": settings.gpu_memory_utilization,
        "max_model_len": settings.max_model_len,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "dtype": settings.dtype,
        "kv_cache_dtype": settings.kv_dtype,
        "enable_prefix_caching": settings.prefix_caching,
        "async_scheduling": settings.async_scheduling,
    } | {name: value for name, value in args.given().items() if name not in _SHOWN}


# A checkpoint whose name ends like this and whose files say nothing of it is missing a file. Only a warning hangs on
# it.
_QUANTISED_NAME = re.compile(r"[-_.](FP8|NVFP4|MXFP4|AWQ|GPTQ|INT4|INT8|W4A16|W8A8)\b", re.ASCII | re.IGNORECASE)
_SHOWN = frozenset({"max_model_len", "dtype", "kv_cache_dtype", "speculative_config"})


def _warnings(model: ModelSpec, args: EngineArgs, gpu: Gpu | None, device: Device, budget: Budget) -> list[Note]:
    found = []
    if gpu is not None and device.assumed:
        found.append(
            Note(
                "backend_assumed",
                f"kvplan knows no attention backends of {gpu.label}: Hopper's block sizes are assumed",
            )
        )
    named = _QUANTISED_NAME.search(model.id)
    if named is not None and model.quantization is None:
        found.append(
            Note(
                "quantization_missing",
                f"the name says {named[1]}, but no quantization section was found: weights and KV dtype may be smaller",
                "hf_quant_config.json belongs beside config.json",
            )
        )
    if gpu is not None and gpu.assumed_among:
        found.append(
            Note(
                "gpu_assumed", f"several cards answer to that name; {gpu.name} is assumed", ", ".join(gpu.assumed_among)
            )
        )
    found += [
        Note("field_assumed", f"{a.name} is not in the config: {a.value} is assumed", a.source) for a in model.assumed
    ]
    if args.kv_cache_memory_bytes is not None and budget.requested_bytes is not None:
        others = sum(line.bytes for line in budget.lines if line.name != "kv_cache")
        if others > budget.requested_bytes:
            found.append(
                Note(
                    "weights_exceed_memory",
                    "the weights and what goes with them would not fit the card beside this pool",
                )
            )
    return found
