"""vLLM's start-up in its own order: refusals, pages, groups, budget, blocks, fit check, the printed figures."""

from __future__ import annotations

from functools import lru_cache

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.backends import Card
from kvplan.engine.vllm.budget import split_memory
from kvplan.engine.vllm.capacity import Counting, Pool, cut, partition
from kvplan.engine.vllm.figures import count_pool, unknown
from kvplan.engine.vllm.grouping import CannotGroup, group_layers
from kvplan.engine.vllm.launch import Launch
from kvplan.engine.vllm.layout import Layout, Refused, lay_out
from kvplan.engine.vllm.pages import Kind, Scheduling
from kvplan.engine.vllm.refusals import Asked, refusals
from kvplan.engine.vllm.releases import Release
from kvplan.engine.vllm.room import pool_warning, start_reason
from kvplan.engine.vllm.settings import Device, Settings, resolve
from kvplan.engine.vllm.speculation import draft_layers
from kvplan.engine.vllm.warnings import warnings_of
from kvplan.hardware import Gpu
from kvplan.home import holds
from kvplan.ledger import Line
from kvplan.model.spec import Layer, ModelSpec
from kvplan.planner import Note, Plan
from kvplan.record import dataclass
from kvplan.same import Same


def plan_vllm(
    model: ModelSpec,
    args: EngineArgs,
    gpu: Gpu | None,
    count: int,
    draft: ModelSpec | None,
    *,
    release: Release,
    local: bool = False,
) -> Plan:
    """Plan one vLLM deployment; a refused Plan holds every reason, and the figures that can be told all the same.

    `local`: what was observed on the user's own cards takes the place of what is modelled.
    """
    device = Device.of(gpu)
    settings = resolve(model, args, device, release)
    reasons = [_note(found) for found in refusals(Asked(model, args, settings, release, device))]
    pool: Pool | None = None
    state_block: int | None = None
    backends: tuple[str, ...] = ()
    if not reasons:
        try:
            layers = tuple(draft_layers(model, args, draft))
        except Refused as found:
            reasons.append(_note(found))
        else:
            built = _built(Same(model), layers, settings, device.card(release), _Cut.of(args), Same(release))
            if isinstance(built, Note):
                reasons.append(built)
            else:
                pool, state_block, backends = built
    shown = _settings_shown(args, settings)
    observed, left_out = _observed(model, args, gpu, release, shown) if local and gpu is not None else ((), ())
    launch = Launch(model, args, settings, device, gpu, release, draft, state_block, observed, backends)
    budget = split_memory(launch)
    warnings = [*warnings_of(launch, budget), *left_out]
    if pool is None:
        kv = unknown(settings.max_model_len)
    else:
        pool_reasons, kv = count_pool(pool, launch, budget)
        reasons += pool_reasons
        if (beyond := pool_warning(launch, budget, kv)) is not None:
            warnings.append(beyond)
    if (found_first := start_reason(launch, budget)) is not None:
        reasons.append(found_first)
    known = gpu is not None or args.gpu_memory is not None or budget.kv_bytes is not None or kv.num_blocks is not None
    return Plan(
        model=model,
        engine="vllm",
        engine_version=release.version,
        engine_settings=shown,
        assumed=settings.assumed if release.named else ("version", *settings.assumed),
        gpu=gpu,
        gpu_count=count,
        budget=budget,
        weights_per_rank=next((line.bytes for line in budget.lines if line.name == "weights"), None),
        kv=kv,
        verdict=("refused" if reasons else "fits") if known else None,
        reasons=tuple(reasons) if known or pool is None else (),
        warnings=tuple(warnings),
    )


def _observed(
    model: ModelSpec, args: EngineArgs, gpu: Gpu, release: Release, settings: dict[str, object]
) -> tuple[tuple[Line, ...], tuple[Note, ...]]:
    if not holds("observations"):
        return (), ()
    from kvplan.observations import observed_lines  # noqa: PLC0415  # most machines have none

    return observed_lines(model.id, "vllm", release.version, gpu, args, settings)


def _note(found: Refused) -> Note:
    return Note(found.code, found.message, found.hint)


@dataclass(frozen=True, slots=True)
class _Cut:
    """The flags that cut layers and requests into the blocks of a rank."""

    tensor: int
    stages: int
    context: int
    block_size: int | None

    @classmethod
    def of(cls, args: EngineArgs) -> _Cut:
        return cls(
            args.tensor_parallel_size, args.pipeline_parallel_size, args.decode_context_parallel_size, args.block_size
        )


@lru_cache(maxsize=512)  # the same on all cards of a kind: `fit` asks for hundreds of cards
def _built(
    model: Same[ModelSpec],
    draft: tuple[Layer, ...],
    settings: Settings,
    card: Card,
    flags: _Cut,
    release: Same[Release],
) -> tuple[Pool, int | None, tuple[str, ...]] | Note:
    """Return the pool before its memory is known, the block of its states in tokens, and the attention backends' names.

    The block is None where there are no states. Where the engine would not start, return the reason.
    """
    try:
        layout = lay_out(
            model.it,
            settings,
            card,
            flags.tensor,
            draft=draft,
            block_size=flags.block_size or settings.mla_block,
            dcp=flags.context,
        )
        pool = _pool(layout, settings, flags, release.it, len(model.it.shape.layers))
    except Refused as found:
        return _note(found)
    except CannotGroup as found:
        return Note("cache_groups_unsupported", str(found))
    return pool, next((page.block_size for page in layout.pages if page.kind is Kind.STATE), None), layout.backends


def _pool(layout: Layout, settings: Settings, flags: _Cut, release: Release, layers: int) -> Pool:
    groups = group_layers(layout.pages, packed=layout.packed, hybrid=settings.hybrid_manager, ratio=release.group_ratio)
    stages = partition(layers, flags.stages)
    # draft layers come after the model's own and live on the last stage
    stages[-1] = range(stages[-1].start, max(layers, *(owner + 1 for owner in layout.owners), 1))
    scheduling = Scheduling(
        in_flight=settings.in_flight_tokens(flags.stages),
        encoder_tokens=settings.max_num_batched_tokens,
        dcp=flags.context,
    )
    counting = Counting(release.concurrency, release.tokens_printed, release.needed, release.null_block_held)
    return Pool(groups, cut(groups, layout.owners, stages), scheduling, counting)


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


_SHOWN = frozenset({"max_model_len", "dtype", "kv_cache_dtype", "speculative_config"})
