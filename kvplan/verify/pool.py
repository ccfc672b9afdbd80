"""The pool as vLLM lays it out on one rank: regions of pages, groups that share block ids, and who decodes what.

A block id costs one page in every region. The layers of one group have a region each; another group's layers overlay
the same regions, since a block id belongs to one group at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.capacity import partition
from kvplan.engine.vllm.grouping import Group, group_layers
from kvplan.engine.vllm.layout import FALCON, lay_out
from kvplan.engine.vllm.pages import Kind, Page, Scheduling
from kvplan.engine.vllm.releases import Release
from kvplan.engine.vllm.settings import Device as EngineDevice
from kvplan.engine.vllm.settings import Settings, resolve
from kvplan.engine.vllm.speculation import draft_layers
from kvplan.hardware import Gpu
from kvplan.model.spec import Cache, Chunked, Cross, Full, Latent, Layer, ModelSpec, Shared, State, Window
from kvplan.verify.device import Attention

_DTYPES = {
    "bfloat16": "bfloat16", "float16": "float16", "fp8": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
}  # fmt: skip

# Bytes of a cached row that the kernels take: 16 words for a tensor core, and the widest of kernels/tiling.py
NARROWEST, WIDEST, WIDEST_LATENT = 32, 1024, 1152


@dataclass(frozen=True, slots=True)
class GroupShape:
    """One cache group, by a page of it, and how a request claims its blocks."""

    page: Page

    def claims(self, length: int, scheduling: Scheduling) -> tuple[int, int]:
        """Return (first block position, block count) that a request of `length` tokens really holds.

        A window holds its last pages only; a state as many slots as the engine keeps of it.
        """
        page = self.page
        tokens = self.tokens(length, scheduling)
        blocks = -(-tokens // page.block_size)
        if page.kind is Kind.STATE:
            return 0, page.resident
        if page.kind in (Kind.WINDOW, Kind.LATENT_WINDOW):
            first = max(tokens - page.span, 0) // page.block_size
            return first, blocks - first
        if page.kind is Kind.CHUNKED:
            first = max(tokens - 1, 0) // page.span * page.span // page.block_size
            return first, blocks - first
        return 0, blocks

    def tokens(self, length: int, scheduling: Scheduling) -> int:
        """Return the tokens that this rank keeps of a request in this group."""
        if self.page.kind is Kind.CROSS:
            return scheduling.encoder_tokens
        return -(-length // scheduling.dcp) if self.page.sharded else length


@dataclass(frozen=True, slots=True)
class Pool:
    """Regions by page bytes, groups, the layers that can be decoded, and in words those that cannot."""

    regions: tuple[int, ...]
    groups: tuple[GroupShape, ...]
    layers: tuple[Attention, ...]
    undecodable: tuple[str, ...]
    scheduling: Scheduling
    dtype: str

    @property
    def bytes_per_block(self) -> int:
        """What one block id costs."""
        return sum(self.regions)

    def one_of_each(self) -> Pool:
        """Return the pool cut to one layer of each kind, with the regions that those need."""
        kinds = {replace(layer, region=0, group=0): layer for layer in reversed(self.layers)}
        kept = sorted({layer.region for layer in kinds.values()}) or [0]
        layers = [replace(layer, region=kept.index(layer.region)) for layer in reversed(kinds.values())]
        return replace(self, regions=tuple(self.regions[i] for i in kept), layers=tuple(layers))


def lay_out_pool(
    model: ModelSpec, args: EngineArgs, gpu: Gpu, release: Release, draft: ModelSpec | None, stage: int = 0
) -> Pool:
    """Return the pool of one rank on pipeline stage `stage`; the plan must have been found to fit."""
    device = EngineDevice.of(gpu)
    settings = resolve(model, args, device, release)
    layers = [*model.shape.layers, *draft_layers(model, args, draft)]
    layout = lay_out(
        model,
        settings,
        device.card(release),
        args.tensor_parallel_size,
        draft=layers[len(model.shape.layers) :],
        block_size=args.block_size or settings.mla_block,
        dcp=args.decode_context_parallel_size,
    )
    groups = group_layers(layout.pages, packed=layout.packed, hybrid=settings.hybrid_manager, ratio=release.group_ratio)
    stages = partition(len(model.shape.layers), args.pipeline_parallel_size)
    here = range(stages[stage].start, len(layers) if stage == len(stages) - 1 else stages[stage].stop)
    members = [_on_stage(group, layout.owners, here) for group in groups]
    members = [group for group in members if group.pages]
    caches = _caches(layers, layout.owners)
    found, refused = _decoders(members, caches, model, args, settings)
    widest = max(members, key=lambda group: sum(page.bytes for page in group.pages))
    return Pool(
        regions=tuple(page.bytes for page in widest.pages),
        groups=tuple(GroupShape(group.pages[0]) for group in members),
        layers=found,
        undecodable=refused,
        scheduling=Scheduling(
            in_flight=settings.in_flight_tokens(args.pipeline_parallel_size),
            encoder_tokens=settings.max_num_batched_tokens,
            dcp=args.decode_context_parallel_size,
        ),
        dtype=_cache_dtype(model, settings) or "bfloat16",
    )


@dataclass(frozen=True, slots=True)
class _Members:
    """A group's layers on one pipeline stage, with their pages."""

    layers: tuple[int, ...]
    pages: tuple[Page, ...]


def _on_stage(group: Group, owners: Sequence[int], here: range) -> _Members:
    kept = [(layer, page) for layer, page in zip(group.layers, group.pages, strict=True) if owners[layer] in here]
    return _Members(tuple(layer for layer, _ in kept), tuple(page for _, page in kept))


def _caches(layers: Sequence[Layer], owners: Sequence[int]) -> list[Cache | None]:
    """Return the cache behind each page; None where a cache has several pages (DeepSeek-V4's layers)."""
    found: list[Cache | None] = []
    for position, layer in enumerate(layers):
        own = [cache for cache in layer if not isinstance(cache, Shared)]
        count = owners.count(position)
        found += own if len(own) == count else [None] * count
    return found


def _decoders(
    groups: Sequence[_Members], caches: Sequence[Cache | None], model: ModelSpec, args: EngineArgs, settings: Settings
) -> tuple[tuple[Attention, ...], tuple[str, ...]]:
    found: list[Attention] = []
    refused: dict[str, None] = {}
    for number, group in enumerate(groups):
        for region, (layer, page) in enumerate(zip(group.layers, group.pages, strict=True)):
            cache = caches[layer]
            if isinstance(cache, State):
                continue  # slots are allocated, filled and read back; there is nothing to attend to
            made = _decoder(cache, page, model, args, settings)
            if isinstance(made, str):
                refused[made] = None
            else:
                found.append(replace(made, region=region, group=number))
    return tuple(found), tuple(refused)


def _decoder(
    cache: Cache | None, page: Page, model: ModelSpec, args: EngineArgs, settings: Settings
) -> Attention | str:
    """Return how a layer is decoded, or why it is not."""
    dtype = _cache_dtype(model, settings)
    if dtype is None:
        return f"KV dtype {settings.kv_dtype if settings.kv_dtype != 'auto' else settings.dtype}"
    tp, shape = args.tensor_parallel_size, model.shape
    heads = max(1, shape.heads // tp)
    match cache:
        case Latent():
            kv_heads, key, value, latent = 1, cache.rank + cache.rope_dim, cache.rank, True
            if cache.rank & (cache.rank - 1):
                return f"latents of {cache.rank} dims, which are no power of two"
        case Full() | Window() | Chunked() | Cross():
            kv_heads, key, value, latent = max(1, cache.kv_heads // tp), cache.head_dim, cache.head_dim_v, False
        case _:
            return "layers of several pages" if cache is None else f"{type(cache).__name__} caches"
    item = 1 if dtype.startswith("float8") else 2
    width = key if latent else key + value
    if heads % kv_heads:
        return f"{heads} query heads over {kv_heads} KV heads"
    narrow, wide = min(key, value) * item, max(key, value) * item
    if key * item % 16 or value * item % 16 or narrow < NARROWEST or wide > (WIDEST_LATENT if latent else WIDEST):
        return f"head dims {key} and {value} in {dtype}"
    if page.token_bytes != kv_heads * width * item or page.bytes % 16:
        return f"pages of {page.token_bytes} bytes a token"
    return Attention(
        region=0, group=0, heads=heads, kv_heads=kv_heads, key=key, value=value, latent=latent, dtype=dtype,
        page=page.block_size, page_bytes=page.bytes,
        window=cache.window if isinstance(cache, Window) else cache.chunk if isinstance(cache, Chunked) else None,
        chunked=isinstance(cache, Chunked), softcap=shape.softcap, sinks=shape.sinks,
    )  # fmt: skip


def _cache_dtype(model: ModelSpec, settings: Settings) -> str | None:
    """Return torch's name of the cache's dtype, None where the kernels have no such cache."""
    asked = "auto" if model.architecture in FALCON else settings.kv_dtype
    return _DTYPES.get(settings.dtype if asked == "auto" else asked)
