"""What SGLang makes of the flags on this card: chunk, graphs, fraction, backend, page, dtypes, strategy of states.

The order is the engine's: the memory hook runs before a model's overrides, these before the backends, states and DP
attention. Source: SGLang 0.5.23, arg_groups/.
"""

from __future__ import annotations

from kvplan.engine.args import EngineArgs
from kvplan.engine.sglang.backends import Backend, Wish, choose
from kvplan.engine.sglang.device import Device
from kvplan.engine.sglang.dtypes import context_length, kv_dtype, model_dtype
from kvplan.engine.sglang.fraction import static_fraction
from kvplan.engine.sglang.graphs import decode_batch, work_of
from kvplan.engine.sglang.releases import Release, lists
from kvplan.engine.sglang.served import Served
from kvplan.model.fields import Fields
from kvplan.model.read import text_section
from kvplan.model.spec import ModelSpec, Window
from kvplan.record import dataclass

_AITER_LENGTH, _AITER_SHARE = 8192, 0.85  # its workspace at longer contexts comes off the fraction, a given one too
_DRAFTING_REQUESTS = 48
_COMPRESSED_REQUESTS = 256
_COMPRESSED_RATIO = 0.1
_WINDOW_RATIO = 0.8
_STATE_RATIO = 0.9


@dataclass(frozen=True, slots=True)
class Settings:
    """The engine's settings after its own defaults.

    `requests` is --max-running-requests after the hooks (None: from the pool), for all attention groups together;
    `slots_per_request` is what a running request takes of the state slots; `assumed` names what no flag gave.
    """

    context_len: int
    fraction: float
    chunk: int
    batch: int
    backend: Backend
    kv_dtype: str
    kv_item: float
    dtype: str
    requests: int | None
    attention_tensor: int
    attention_dp: int
    window_ratio: float
    state_ratio: float
    strategy: str
    slots_per_request: int
    radix: bool
    overlap: bool
    reserve_mib: int
    drafts: Drafts | None
    assumed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drafts:
    """Speculative decoding: `tokens` verified a step, and the draft's layers that keep keys and values.

    `windowed`: they write into the window pool.
    """

    algorithm: str
    tokens: int
    layers: int
    windowed: bool


def resolve(
    model: ModelSpec, served: Served, args: EngineArgs, device: Device, release: Release, *, draft: ModelSpec | None
) -> Settings:
    """Apply the engine's defaults. Refusals are decided elsewhere."""
    own = args.sglang
    tier = release.tier(device.memory_mib)
    chunk = args.max_num_batched_tokens or tier.chunk
    batch = decode_batch(served, args, device, tier.batch[args.tensor_parallel_size >= 4])
    radix = args.enable_prefix_caching is not False
    drafts = _drafts(model, args, draft)
    strategy, overlap = _strategy(served, args, radix=radix)
    wish = Wish(
        backend=own.attention_backend,
        page_size=args.block_size,
        tensor=args.tensor_parallel_size,
        buffered=own.mamba_radix_cache_strategy.startswith("extra_buffer"),
        radix=radix,
        drafting=drafts is not None,
    )
    backend = choose(served, device, wish)
    context = args.max_model_len if isinstance(args.max_model_len, int) else context_length(model)
    fraction = args.gpu_memory_utilization
    if fraction is None:
        work = work_of(served, args, device, batch, chunk, model.id)
        shown = served.multimodal and not (own.language_only or own.language_model_only)
        fraction = static_fraction(release, device, work, vision=served.vision, multimodal=shown)
    if release.multimodal_factor is not None and served.multimodal:
        fraction *= release.multimodal_factor
    if backend.name == "aiter" and context > _AITER_LENGTH:
        fraction *= _AITER_SHARE
    cached, item = kv_dtype(model, served, args, device, release)
    return Settings(
        context_len=context,
        fraction=fraction,
        chunk=_served_chunk(served, chunk, own.attn_dp_size),
        batch=batch,
        backend=backend,
        kv_dtype=cached,
        kv_item=item,
        dtype=model_dtype(model, args, device),
        requests=_requests(served, args, drafts),
        attention_tensor=max(1, args.tensor_parallel_size // own.attn_dp_size),
        attention_dp=own.attn_dp_size,
        window_ratio=own.swa_full_tokens_ratio
        or (_COMPRESSED_RATIO if served.attention == "compressed" else _WINDOW_RATIO),
        state_ratio=own.mamba_full_memory_ratio or _STATE_RATIO,
        strategy=strategy,
        slots_per_request=_slots_per_request(strategy, release, radix=radix, overlap=overlap),
        radix=radix,
        overlap=overlap,
        reserve_mib=_reserve(served, args, device) if release.multimodal_reserve else 0,
        drafts=drafts,
        assumed=tuple(name for name, field in _DEFAULTED.items() if getattr(args, field) is None),
    )


_DEFAULTED = {
    "mem_fraction_static": "gpu_memory_utilization", "context_length": "max_model_len",
    "chunked_prefill_size": "max_num_batched_tokens", "max_running_requests": "max_num_seqs", "page_size": "block_size",
}  # fmt: skip

# -- requests ----------------------------------------------------------------------------------------------


def _requests(served: Served, args: EngineArgs, drafts: Drafts | None) -> int | None:
    if args.max_num_seqs is not None:
        return args.max_num_seqs
    if served.attention == "compressed":
        return _COMPRESSED_REQUESTS
    return _DRAFTING_REQUESTS if drafts is not None else None


def _served_chunk(served: Served, chunk: int, groups: int) -> int:
    if served.multimodal and served.on("unchunked"):
        return -1
    return chunk // groups if groups > 1 and chunk > 0 else chunk


# -- states -----------------------------------------------------------------------------------------------------------


def _strategy(served: Served, args: EngineArgs, *, radix: bool) -> tuple[str, bool]:
    """Return how states share the radix cache, and whether steps still overlap: without a buffer they do not."""
    asked, overlap = args.sglang.mamba_radix_cache_strategy, args.async_scheduling is not False
    if not served.states or not radix or not served.on("states_cached") or asked != "auto":
        return asked, overlap
    paged = args.block_size is not None and args.block_size > 1
    if (overlap or paged) and served.on("extra_buffer"):
        return "extra_buffer", overlap
    return "no_buffer", False


def _slots_per_request(strategy: str, release: Release, *, radix: bool, overlap: bool) -> int:
    if not radix or release.states == "fixed":
        return 1
    spare = {"extra_buffer": 2 if overlap else 1, "extra_buffer_lazy": 1}.get(strategy, 0)
    return 3 + spare


# -- multimodal reserve and drafts ------------------------------------------------------------------------------------

_EMBEDDINGS_MIB, _TRANSPORT_MIB, _WIDE_TRANSPORT_MIB = 100, 1024, 3072
_WIDE_REQUESTS = 400


def _reserve(served: Served, args: EngineArgs, device: Device) -> int:
    """Return MiB held back for images: the embedding cache, or feature transport on the cards profiled for Qwen3-VL."""
    if not served.multimodal:
        return 0
    if device.large_hopper and served.architecture.startswith("Qwen3VL"):
        return _WIDE_TRANSPORT_MIB if (args.max_num_seqs or 0) >= _WIDE_REQUESTS else _TRANSPORT_MIB
    return _EMBEDDINGS_MIB


_FROM_CHECKPOINT = frozenset({"EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "FROZEN_KV_MTP"})
_DRAFT_TOKENS = 4


def _drafts(model: ModelSpec, args: EngineArgs, draft: ModelSpec | None) -> Drafts | None:
    own = args.sglang
    if own.speculative_algorithm is None:
        return None
    name = own.speculative_algorithm.upper()
    steps, tokens = own.speculative_num_steps, own.speculative_num_draft_tokens
    if tokens is None:
        tokens = steps + 1 if steps is not None else _DRAFT_TOKENS
    layers = 0
    if name in _FROM_CHECKPOINT:
        layers = len(draft.shape.layers) if draft is not None else _own_drafts(model)
    windowed = draft is None and any(isinstance(cache, Window) for layer in model.shape.draft_layers for cache in layer)
    return Drafts("EAGLE" if name == "NEXTN" else name, tokens, layers, windowed=windowed)


def _own_drafts(model: ModelSpec) -> int:
    """Return the checkpoint's prediction layers that the engine serves: one for some, else what the config says."""
    if model.architecture in lists()["one_draft"]:
        return 1
    return text_section(Fields(model.config)).maybe_integer("num_nextn_predict_layers", low=0, high=64) or 0
