"""What a model keeps in memory per token and per request, layer by layer, before any engine has a say.

A closed sum of cache kinds: adding one makes the type checker point at every place that must know it (`assert_never`).
A layer is a tuple of caches, because some keep several: an attention layer with a sparse indexer, a decoder layer with
self and cross attention, a parallel attention-and-state layer. An empty tuple is a layer that keeps nothing.

Counts are of the whole model (no tensor parallelism); dims are elements, not bytes: the engine chooses the element
size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvplan.record import dataclass
from kvplan.same import Same

if TYPE_CHECKING:
    from kvplan.sources.headers import Stored  # few models have any


@dataclass(frozen=True, slots=True)
class Full:
    """Keys and values of every token: `kv_heads` x (`head_dim` + `head_dim_v`) elements a token."""

    kv_heads: int
    head_dim: int
    head_dim_v: int


@dataclass(frozen=True, slots=True)
class Window:
    """As Full, for the last `window` tokens only (sliding-window attention)."""

    kv_heads: int
    head_dim: int
    head_dim_v: int
    window: int


@dataclass(frozen=True, slots=True)
class Chunked:
    """As Full, for the tokens of the current chunk of `chunk` tokens (Llama-4's local attention)."""

    kv_heads: int
    head_dim: int
    head_dim_v: int
    chunk: int


@dataclass(frozen=True, slots=True)
class Cross:
    """Keys and values of the encoder's tokens, written once a request (encoder-decoder models)."""

    kv_heads: int
    head_dim: int
    head_dim_v: int


@dataclass(frozen=True, slots=True)
class Latent:
    """One compressed vector a token that serves as key and value: `rank` + `rope_dim` elements (MLA).

    `dense`: the layer attends to every token although others of the model select theirs by an index (Hunyuan V4).
    """

    rank: int
    rope_dim: int
    dense: bool = False


@dataclass(frozen=True, slots=True)
class Indexer:
    """The key of a sparse-attention indexer, one vector a token beside the layer's own cache.

    `quantised`: kept as one byte an element plus a 4-byte scale for each 128, whatever the KV dtype (DeepSeek-V3.2);
    otherwise kept in the model's dtype (MiniMax-M3).
    """

    head_dim: int
    quantised: bool


@dataclass(frozen=True, slots=True)
class CompressedLatent:
    """DeepSeek-V4: a sliding window of latents, and latents of every `ratio` tokens folded into one state.

    `head_dim` includes `rope_dim`. `ratio` 0 or 1: the window alone. `index_head_dim` is the indexer's key dimension
    where the layer selects states by an indexer, else None.
    """

    head_dim: int
    rope_dim: int
    window: int
    ratio: int
    index_head_dim: int | None


@dataclass(frozen=True, slots=True)
class Mamba1:
    """Selective state space: convolution over `inner`, state `inner` x `state`."""

    inner: int
    state: int
    kernel: int


@dataclass(frozen=True, slots=True)
class Mamba2:
    """State space duality: convolution over `inner` + 2 x `groups` x `state`, state `heads` x `head_dim` x `state`."""

    inner: int
    groups: int
    heads: int
    head_dim: int
    state: int
    kernel: int


@dataclass(frozen=True, slots=True)
class GatedDeltaNet:
    """Gated delta rule (Qwen3-Next, Qwen3.5): state `v_heads` x `v_dim` x `k_dim`."""

    k_heads: int
    v_heads: int
    k_dim: int
    v_dim: int
    kernel: int


@dataclass(frozen=True, slots=True)
class KimiDelta:
    """Kimi delta attention: as a gated delta rule, state `heads` x `head_dim` x `head_dim`.

    `bounded`: the gate has a lower bound (Kimi-K3's gate_lower_bound), which lets prefill kernels hand out states.
    """

    heads: int
    head_dim: int
    k_heads: int
    k_dim: int
    kernel: int
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class Lightning:
    """Linear attention without a convolution (MiniMax-Text-01, M1): state `heads` x `head_dim` x `head_dim`."""

    heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class ShortConv:
    """Gated short convolution (LFM2): the last `kernel` - 1 inputs of `dim` channels."""

    dim: int
    kernel: int


@dataclass(frozen=True, slots=True)
class LinearRecurrence:
    """A gated linear recurrence over channels with a short convolution (RecurrentGemma's RG-LRU)."""

    dim: int
    kernel: int


@dataclass(frozen=True, slots=True)
class Rwkv:
    """RWKV: a `heads` x `head_dim` x `head_dim` state and the last token's hidden vector twice."""

    hidden: int
    heads: int
    head_dim: int


Mixer: TypeAlias = Mamba1 | Mamba2 | GatedDeltaNet | KimiDelta | Lightning | ShortConv | LinearRecurrence | Rwkv


@dataclass(frozen=True, slots=True)
class State:
    """A state of constant size a request, whatever its length.

    `recurrent_dtype` is the dtype that the config or its class asks for in the recurrent part; None: as the model's.
    The convolution's part is always kept in the model's dtype.
    """

    mixer: Mixer
    recurrent_dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Shared:
    """Reads the cache of an earlier layer and keeps none of its own (Gemma-3n, cross-layer sharing)."""

    layer: int


Attention: TypeAlias = Full | Window | Chunked | Cross
Cache: TypeAlias = Full | Window | Chunked | Cross | Latent | Indexer | CompressedLatent | State | Shared
Layer: TypeAlias = tuple[Cache, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a family's reader finds in a config: the layers, and the figures that engines ask of the model as a whole.

    `heads`, `kv_heads` and `head_dim` are the model-wide figures (0 heads: attention-free); per-layer caches may
    differ. `kind`: `decoder` generates; `encoder-decoder` also keeps cross attention; `encoder` keeps no KV cache.
    `sinks`: attention has per-head sink logits. `prefix_lm`: image tokens attend to each other in both directions.
    `draft_layers`: the multi-token-prediction layers that the checkpoint carries, used under speculative decoding only.
    `rejected`: what the model's own class does not build, where the config asks for it; empty: nothing.
    `mla_dims`: (qk_nope_head_dim, qk_rope_head_dim, v_head_dim) of an MLA model.
    """

    layers: tuple[Layer, ...]
    heads: int
    kv_heads: int
    head_dim: int
    kind: Literal["decoder", "encoder-decoder", "encoder"] = "decoder"
    sinks: bool = False
    prefix_lm: bool = False
    softcap: bool = False
    draft_layers: tuple[Layer, ...] = ()
    mla_dims: tuple[int, int, int] | None = None
    index_topk: int | None = None
    rejected: str = ""

    def caches(self) -> Iterator[Cache]:
        """Yield the caches of all layers in order."""
        for layer in self.layers:
            yield from layer

    def distinct(self) -> tuple[Cache, ...]:
        """Return each different cache once, in the order in which they come."""
        return _distinct(Same(self))


@lru_cache(maxsize=64)
def _distinct(shape: Same[Shape]) -> tuple[Cache, ...]:
    return tuple(dict.fromkeys(shape.it.caches()))


@dataclass(frozen=True, slots=True)
class Assumed:
    """A value that the config leaves out, and where it was taken from instead."""

    name: str
    value: object
    source: str


@dataclass(frozen=True, slots=True)
class Quantization:
    """The checkpoint's quantization section, as far as memory planning needs it.

    `method` is the section's quant_method (`fp8`, `gptq`, `compressed-tensors`, `modelopt`, `modelopt_fp4`, `mxfp4` …);
    `kv_dtype` is the KV-cache dtype that it declares (`fp8`, `nvfp4`), or None; `block` the weight block of blockwise
    formats as (rows, columns); `group` the columns that share a scale in 4-bit formats; `bits` of a weight element.
    `side_kv_dtype` is what hf_quant_config.json declares beside a section of config.json, which some engines read too.
    """

    method: str
    bits: int | None
    block: tuple[int, int] | None
    group: int | None
    kv_dtype: str | None
    section: Mapping[str, object]
    side_kv_dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Rope:
    """A scaling of the positions: its rope type, its factor, and the length that the model had before it."""

    kind: str
    factor: float | None
    original: int | None


@dataclass(frozen=True, slots=True)
class Length:
    """What the config says of context length.

    `limit` is the smallest of the length fields (None: none is given) and `key` its name; `ropes` are the scalings,
    which engines count in by rules of their own (none where the model's class has `limit` stretched already);
    `original` is original_max_position_embeddings; `model_max_length` is the config's own override; `tokenizer` the
    tokenizer's model_max_length where known.
    """

    limit: int | None
    key: str | None
    ropes: tuple[Rope, ...]
    original: int | None
    model_max_length: int | None
    tokenizer: int | None

    def has_rope(self, kind: str) -> bool:
        """Say whether a scaling is of this type."""
        return any(rope.kind == kind for rope in self.ropes)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One checkpoint as planners see it: its shape, its sizes, its dtype and what had to be assumed.

    `config` is config.json as it stands: weights are read from it when they are asked for. `stored` are the tensors of
    its files, where the architecture has no rule that computes them.
    """

    id: str
    source: str
    revision: str | None
    architecture: str
    model_type: str
    dtype: str
    shape: Shape
    length: Length
    hidden_size: int
    vocab_size: int
    intermediate_size: int | None
    moe_intermediate_size: int | None
    num_experts: int
    vision_heads: int | None
    quantization: Quantization | None
    assumed: tuple[Assumed, ...]
    config: Mapping[str, object] = field(repr=False, compare=False)
    stored: tuple[Stored, ...] = field(default=(), repr=False, compare=False)
