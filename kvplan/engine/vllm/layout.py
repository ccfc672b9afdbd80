"""From a model's caches to vLLM's pages on one rank: heads split, dtypes sized, block sizes chosen and aligned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm, prod
from typing import assert_never

from kvplan.engine.vllm.backends import DEFAULT_BLOCK_SIZE, Backend, Card, Want, choose, common_block_size, unread
from kvplan.engine.vllm.backends.rocm import UNIFIED
from kvplan.engine.vllm.backends.want import PLAIN
from kvplan.engine.vllm.cells import PACKED_LATENT, WITH_BOUNDARY, cell_bytes
from kvplan.engine.vllm.deepseek_v4 import compressed_pages
from kvplan.engine.vllm.pages import Kind, Page
from kvplan.engine.vllm.settings import Settings
from kvplan.engine.vllm.states import WITHOUT_CHECKPOINTS, checkpoint_alignment, exports_checkpoint, state_parts
from kvplan.errors import UsageError
from kvplan.model.fields import Fields
from kvplan.model.read import text_section
from kvplan.model.spec import (
    Cache,
    Chunked,
    CompressedLatent,
    Cross,
    Full,
    Indexer,
    Latent,
    Layer,
    ModelSpec,
    Shared,
    State,
    Window,
)
from kvplan.record import dataclass

FALCON = frozenset({"FalconForCausalLM", "RWForCausalLM"})
# TurboQuant and UltraQuant leave the first and the last two layers of a model without states unquantised
_BOUNDARY_LAYERS = 2


class Refused(Exception):
    """The engine would not start: a code of the contract, and its message."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


@dataclass(frozen=True, slots=True)
class Layout:
    """The pages of all cached layers, the model layer that each belongs to, and what was chosen on the way."""

    pages: tuple[Page, ...]
    owners: tuple[int, ...]
    backends: tuple[str, ...]
    block_size: int
    packed: bool


@dataclass(frozen=True, slots=True)
class _Rank:
    """What every layer of one rank shares."""

    model: ModelSpec
    settings: Settings
    card: Card
    tp: int
    kv_dtype: str
    user_block_size: int | None
    dcp: int

    @property
    def capability(self) -> tuple[int, int]:
        """CUDA's compute capability, (0, 0) on AMD."""
        return self.card.capability

    @property
    def item(self) -> int:
        """Bytes of a model-dtype element."""
        return self.settings.item_size

    def heads(self, kv_heads: int) -> int:
        """KV heads on this rank: an equal share, at least one (more ranks than heads keep copies)."""
        return max(1, kv_heads // self.tp)


def lay_out(
    model: ModelSpec,
    settings: Settings,
    card: Card,
    tp: int,
    *,
    draft: Sequence[Layer] = (),
    block_size: int | None = None,
    dcp: int = 1,
) -> Layout:
    """Return the pages of one rank on such a card, a draft's layers after the model's own.

    Raises Refused where the engine finds no backend or no block size.
    """
    kv_dtype = "auto" if model.architecture in FALCON else settings.kv_dtype
    rank = _Rank(model, settings, card, tp, kv_dtype, block_size, dcp)
    layers = [*model.shape.layers, *draft]
    unquantised = _boundary(rank)
    ranks = [replace(rank, kv_dtype="auto") if i in unquantised else rank for i in range(len(layers))]
    wanted = {(local.kv_dtype, c): local for local, layer in zip(ranks, layers, strict=True) for c in layer}
    chosen = {(kv_dtype, cache): _backend(local, cache) for (kv_dtype, cache), local in wanted.items()}
    distinct = list(dict.fromkeys(backend for found in chosen.values() for backend in found))
    tokens = _block_size(rank, distinct)
    packed = any(isinstance(cache, CompressedLatent) for layer in layers for cache in layer)
    align = _align_states(rank, layers, distinct, tokens)
    if unquantised:
        align = replace(align, block_size=_align_boundary(rank, distinct, align.block_size))
    pages: list[Page] = []
    owners: list[int] = []
    for position, (local, layer) in enumerate(zip(ranks, layers, strict=True)):
        for cache in layer:
            here = _pages(local, cache, chosen[local.kv_dtype, cache], align)
            pages += here
            owners += [position] * len(here)
    return Layout(tuple(pages), tuple(owners), tuple(b.name for b in distinct), align.block_size, packed)


# -- backends and block size ------------------------------------------------------------------------------------------


def _backend(rank: _Rank, cache: Cache) -> tuple[Backend, ...]:
    """Return the backends whose kernels read this cache; none for states and shared layers."""
    shape = rank.model.shape
    base = Want(
        card=rank.card,
        head_dim=shape.head_dim,
        kv_dtype=rank.kv_dtype,
        run_dtype=rank.settings.kv_dtype,
        sinks=shape.sinks,
        prefix_lm=shape.prefix_lm,
        encoder=shape.kind != "decoder",
        softcap=shape.softcap,
        query_heads=max(1, shape.heads // rank.tp),
        kv_heads=rank.heads(shape.kv_heads) if shape.kv_heads else 0,
        mla_dims=shape.mla_dims,
        index_topk=shape.index_topk,
        dtype=rank.settings.dtype,
        context_parallel=rank.dcp > 1,
    )
    match cache:
        case State() | Shared():
            return ()
        case Indexer():
            # DeepSeek's indexer kernels page by 64 tokens (AMD's by 1, or multiples of 16), MiniMax-M3's by 128
            deepseek = (1, 16) if rank.card.amd else (64,)
            return (Backend("INDEXER", deepseek if cache.quantised else (128,), multiple=bool(rank.card.amd)),)
        case CompressedLatent():
            return (Backend("DEEPSEEK_V4", (256,), multiple=False),)
        case Latent():
            sparse = _sparse(rank, cache)
            want = replace(base, head_dim=cache.rank + cache.rope_dim, mla=True, sparse=sparse)
        case Cross():
            want = replace(base, head_dim=cache.head_dim, cross=True)
        case Full() | Window() | Chunked():
            want = replace(
                base,
                head_dim=cache.head_dim,
                window=isinstance(cache, Window),
                unequal=cache.head_dim_v != cache.head_dim,
                rotary=_rotary(rank, cache.head_dim),
            )
        case _:
            assert_never(cache)
    found = choose(want)
    if found is None:
        raise Refused(
            "no_attention_backend",
            f"no attention backend of vLLM takes head size {want.head_dim} with KV dtype {rank.kv_dtype}"
            f" on {rank.card.name}",
            "another --kv-cache-dtype, or a newer card",
        )
    reason = unread(found, want)
    if reason is not None:
        raise Refused("kv_cache_dtype_unsupported", reason, "--kv-cache-dtype auto, or a newer card")
    if found.name == "FLASHMLA_SPARSE" and rank.dcp > 1 and rank.kv_dtype in PLAIN:
        raise Refused(
            "context_parallel_unsupported",
            f"FLASHMLA_SPARSE spreads a cache over {rank.dcp} ranks only where it is packed in fp8",
            "--kv-cache-dtype fp8_ds_mla, or leave --decode-context-parallel-size out",
        )
    return (found,)


def _rotary(rank: _Rank, head_dim: int) -> int | None:
    """Return the channels of a head that rotary embeddings turn, None where no backend asks."""
    if not rank.kv_dtype.startswith("octave_"):
        return None
    config = text_section(Fields(rank.model.config))
    section = config.maybe_section("rope_parameters")
    share = config.maybe_number("partial_rotary_factor")
    if share is None and section is not None:
        share = section.maybe_number("partial_rotary_factor")
    return int(head_dim * (1.0 if share is None else share))


def _block_size(rank: _Rank, backends: Sequence[Backend]) -> int:
    if rank.user_block_size is not None:
        wrong = [backend.name for backend in backends if not backend.runs(rank.user_block_size)]
        if wrong:
            raise Refused(
                "block_size_unsupported",
                f"--block-size {rank.user_block_size} is not run by {', '.join(wrong)}",
                "leave --block-size out, or take a multiple of "
                + str(lcm(*(min(backend.blocks) for backend in backends))),
            )
        return rank.user_block_size
    if not backends:
        return DEFAULT_BLOCK_SIZE
    found = common_block_size(list(backends))
    if found is None:
        raise Refused("block_size_unsupported", "the model's attention backends share no block size")
    return found


def _boundary(rank: _Rank) -> frozenset[int]:
    """Layers that keep the model's dtype under TurboQuant: none of a hybrid, which has few attention layers."""
    if rank.kv_dtype not in WITH_BOUNDARY or any(isinstance(cache, State) for cache in rank.model.shape.caches()):
        return frozenset()
    count = len(rank.model.shape.layers)
    ends = min(_BOUNDARY_LAYERS, count // 2)
    return frozenset([*range(ends), *range(count - ends, count)])


# ROCm's first two: TurboQuant's layers get Triton beside them instead, UltraQuant's do not
_HEADS_OUTSIDE = frozenset({"ROCM_ATTN", UNIFIED})


def _align_boundary(rank: _Rank, backends: Sequence[Backend], tokens: int) -> int:
    """Grow the block until a quantised page covers an unquantised page of the first backend's smallest block.

    The engine sizes both by the first backend's own layout: one byte an element for the quantised one. Raises Refused
    where the two backends share no layout.
    """
    shape = rank.model.shape
    names = {backend.name for backend in backends}
    apart = {"FLASHINFER"} if rank.capability[0] == 10 else _HEADS_OUTSIDE
    if (other := next(iter(apart & names), None)) is not None:
        raise Refused(
            "no_attention_backend",
            f"KV dtype {rank.kv_dtype}: {other}, which reads the unquantised first and last layers on this card,"
            " keeps heads outside the tokens of a block, the quantised ones are kept inside",
            "another --kv-cache-dtype",
        )
    smallest = min(backends[0].blocks)
    step = max(smallest, tokens)
    elements = rank.heads(shape.kv_heads) * 2 * shape.head_dim
    return max(tokens, step * -(-elements * rank.item * smallest // (step * elements)))


# -- states beside attention ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Align:
    """Block size of attention, block size and page of states, and the blocks that a request keeps of a state."""

    block_size: int
    state_block: int
    state_page: int | None
    resident: int


def _align_states(rank: _Rank, layers: Sequence[Layer], backends: Sequence[Backend], tokens: int) -> _Align:
    """Grow the attention block until its page covers a state, and pad states to it.

    With prefix caching a state is saved at block ends: two blocks a request, three where the layer can also save from
    inside a prefill, whose grid then shapes the block. Without it one block holds the state for the whole length.
    """
    states = [cache for layer in layers for cache in layer if isinstance(cache, State)]
    settings = rank.settings
    if not states:
        return _Align(tokens, tokens, None, 0)
    saving = settings.prefix_caching
    exporting = saving and settings.state_checkpoints and rank.model.architecture not in WITHOUT_CHECKPOINTS
    grid = checkpoint_alignment(states, rank.capability, settings.dtype) if exporting else None
    saves = exporting and exports_checkpoint(states, rank.capability, settings.dtype)
    resident = (2 + saves if saving else 1) + settings.speculative_tokens
    if not backends:
        return _Align(tokens, tokens if saving else settings.max_model_len, None, resident)
    page = max(state_bytes(rank, state) for state in states)
    token = _token_bytes_of_model(rank)
    if not token:  # the draft attends, the model does not
        raise UsageError("kvplan does not know how a draft with attention is laid out beside a model of states alone")
    step = max(min(backends[0].blocks), tokens)
    if rank.model.shape.mla_dims is not None:
        step = max(step, settings.mla_state_alignment)
    step = lcm(step, grid or 1)
    grown = step * -(-page // (step * token))
    unit = lcm(*(min(backend.blocks) for backend in backends))
    block = max(tokens, unit * -(-grown // unit))
    wrong = [backend.name for backend in backends if block != tokens and not backend.runs(block)]
    if wrong:
        raise Refused("block_size_unsupported", f"the aligned block of {block} tokens is not run by {', '.join(wrong)}")
    padded = block * token
    return _Align(block, block if saving else settings.max_model_len, padded if padded != page else None, resident)


def _token_bytes_of_model(rank: _Rank) -> int:
    """Bytes that one token takes in one attention layer, by the model-wide geometry."""
    shape = rank.model.shape
    if shape.mla_dims is not None:
        latent = next(cache for cache in shape.caches() if isinstance(cache, Latent))
        return _latent_bytes(rank, latent)
    return _cell(rank, shape.kv_heads, shape.head_dim, shape.head_dim)


def state_bytes(rank: _Rank, state: State) -> int:
    """Bytes of one layer's state on one rank."""
    parts = state_parts(state, rank.tp, rank.settings.speculative_tokens, rank.settings.dtype)
    return sum(prod(part.shape) * part.item for part in parts)


# -- pages ------------------------------------------------------------------------------------------------------------


def _pages(rank: _Rank, cache: Cache, backends: Sequence[Backend], align: _Align) -> list[Page]:
    block = align.block_size
    match cache:
        case Shared():
            return []
        case Full():
            return [Page(Kind.FULL, block, _cell_of(rank, cache), form=_form(rank, cache))]
        case Window():
            size = backends[0].largest_within(block)
            return [Page(Kind.WINDOW, size, _cell_of(rank, cache), span=cache.window, form=_form(rank, cache))]
        case Chunked():
            return [Page(Kind.CHUNKED, block, _cell_of(rank, cache), span=cache.chunk, form=_form(rank, cache))]
        case Cross():
            return [Page(Kind.CROSS, block, _cell_of(rank, cache), form=_form(rank, cache))]
        case Latent():
            form = ("latent", cache.rank + cache.rope_dim, rank.kv_dtype)
            return [Page(Kind.LATENT, block, _latent_bytes(rank, cache), form=form)]
        case Indexer():
            scales = -(-cache.head_dim // 128) * 4
            size = cache.head_dim + scales if cache.quantised else cache.head_dim * rank.item
            return [Page(Kind.LATENT, block, size, form=("indexer", cache.head_dim))]
        case CompressedLatent():
            return compressed_pages(cache, block)
        case State():
            parts = state_parts(cache, rank.tp, rank.settings.speculative_tokens, rank.settings.dtype)
            size = sum(prod(part.shape) * part.item for part in parts)
            tensors = tuple((part.shape, part.item) for part in parts)
            return [
                Page(
                    Kind.STATE,
                    align.state_block,
                    size,
                    padded=align.state_page,
                    resident=align.resident,
                    sharded=False,
                    form=tensors,
                )
            ]
        case _:
            assert_never(cache)


def _cell_of(rank: _Rank, cache: Full | Window | Chunked | Cross) -> int:
    return _cell(rank, cache.kv_heads, cache.head_dim, cache.head_dim_v)


def _form(rank: _Rank, cache: Full | Window | Chunked | Cross) -> tuple[object, ...]:
    return (rank.heads(cache.kv_heads), cache.head_dim, cache.head_dim_v, rank.kv_dtype)


def _cell(rank: _Rank, kv_heads: int, head_dim: int, head_dim_v: int) -> int:
    return cell_bytes(rank.heads(kv_heads), head_dim, head_dim_v, rank.kv_dtype, rank.item)


def _sparse(rank: _Rank, latent: Latent) -> bool:
    """Whether the layer attends to tokens that an index selects, its own or an earlier layer's."""
    return not latent.dense and any(isinstance(cache, Indexer) for cache in rank.model.shape.caches())


def _latent_bytes(rank: _Rank, latent: Latent) -> int:
    width = latent.rank + latent.rope_dim
    if rank.kv_dtype in PACKED_LATENT:
        return PACKED_LATENT[rank.kv_dtype]
    if rank.kv_dtype in ("auto", "bfloat16", "float16"):
        return width * rank.item
    sparse = _sparse(rank, latent)
    if sparse and rank.kv_dtype == "fp8" and rank.capability[0] == 9:
        return PACKED_LATENT["fp8_ds_mla"]  # FlashMLA's sparse kernel packs any fp8 request
    if sparse and rank.capability[0] == 12:
        return PACKED_LATENT["fp8_ds_mla"]
    return width
