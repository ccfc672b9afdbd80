"""What a layer asks of an attention backend, what a backend runs, and the card that lies under both."""

from __future__ import annotations

from math import lcm
from typing import Literal

from kvplan.record import dataclass

DEFAULT_BLOCK_SIZE = 16
PLAIN = frozenset({"auto", "float16", "bfloat16"})
FP8 = frozenset({"fp8", "fp8_e4m3"})
PER_TOKEN = frozenset({"int4_per_token_head", "int8_per_token_head", "fp8_per_token_head"})


@dataclass(frozen=True, slots=True)
class Card:
    """A card as a release's backends see it; the last four fields are sections of the release's profile.

    `capability` is CUDA's (major, minor), and (0, 0) on AMD, so that no rule of CUDA's speaks for it; `amd` is the
    catalogue's architecture of an AMD card, empty elsewhere.
    """

    capability: tuple[int, int]
    amd: str = ""
    release: str = ""
    flashinfer_from: tuple[int, int] = (8, 0)
    triton_fp8: Literal["taken", "uncompiled", "refused"] = "refused"
    triton_mla_fp8: Literal["missing", "uncompiled", "refused"] = "refused"

    @property
    def name(self) -> str:
        """What a refusal calls it."""
        return f"AMD's {self.amd}" if self.amd else f"compute capability {self.capability[0]}.{self.capability[1]}"


@dataclass(frozen=True, slots=True)
class Want:
    """What a layer asks of a backend; `query_heads` and `kv_heads` are per rank.

    `run_dtype` is the KV dtype of the whole run, which a layer that stays unquantised does not have; `rotary` the
    channels of a head that turn with the position.
    """

    card: Card
    head_dim: int
    kv_dtype: str
    run_dtype: str = "auto"
    mla: bool = False
    sparse: bool = False
    sinks: bool = False
    prefix_lm: bool = False
    softcap: bool = False
    cross: bool = False
    encoder: bool = False
    window: bool = False
    unequal: bool = False
    query_heads: int = 1
    kv_heads: int = 1
    mla_dims: tuple[int, int, int] | None = None
    index_topk: int | None = None
    rotary: int | None = None
    dtype: str = "bfloat16"
    context_parallel: bool = False

    @property
    def capability(self) -> tuple[int, int]:
        """CUDA's compute capability."""
        return self.card.capability

    @property
    def major(self) -> int:
        """The compute capability's major number: 8 Ampere and Ada, 9 Hopper, 10 and 12 Blackwell."""
        return self.card.capability[0]

    @property
    def quantised(self) -> bool:
        """Whether the KV dtype is a quantised one."""
        return self.kv_dtype not in PLAIN


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend's name, and the block sizes that its kernels run: exactly these, or (`multiple`) multiples of them.

    `prefers` is the block that it asks for where it is alone, None for the default or the smallest.
    """

    name: str
    blocks: tuple[int, ...]
    multiple: bool
    prefers: int | None = None

    def runs(self, block_size: int) -> bool:
        """Say whether a block of this many tokens can be run, whole or split into kernel blocks."""
        return any(block_size % size == 0 for size in self.blocks)

    def preferred(self, default: int) -> int:
        """Return the block that it asks for: its own, else the default where it runs, else the smallest that does."""
        return self.prefers or (default if self.runs(default) else min(self.blocks))

    def largest_within(self, tokens: int) -> int:
        """Return the largest kernel block of at most `tokens` tokens; the smallest one where none fits."""
        if self.multiple:
            return max(max(size, tokens // size * size) for size in self.blocks)
        fitting = [size for size in self.blocks if size <= tokens]
        return max(fitting) if fitting else min(self.blocks)


def common_block_size(backends: list[Backend], default: int = DEFAULT_BLOCK_SIZE) -> int | None:
    """Return the block size that all of a model's backends accept: the default, else the smallest common one."""
    if len(backends) == 1:
        return backends[0].preferred(default)
    if all(backend.runs(default) for backend in backends):
        return default
    sizes = {1}
    for backend in backends:
        sizes = {lcm(size, other) for size in sizes for other in backend.blocks}
    return next((size for size in sorted(sizes) if all(backend.runs(size) for backend in backends)), None)
