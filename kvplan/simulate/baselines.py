"""What paging, continuous batching and the prefix cache are measured against, on the same memory and the same clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from kvplan.errors import UsageError
from kvplan.simulate.settings import Settings

Batching = Literal["continuous", "static"]
BLOCK_SIZES = (8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Settings with a name, and how requests are batched."""

    name: str
    settings: Settings
    batching: Batching = "continuous"


def contiguous(settings: Settings) -> list[Scenario]:
    """Each request reserves max_model_len in one piece: a block is as long as a request may be, none is shared."""
    size = settings.max_model_len
    blocks = settings.usable * settings.block_size // size
    if not blocks:
        raise UsageError(
            f"contiguous: the pool does not hold one reservation of {size:,} tokens", "lower max_model_len"
        )
    return [Scenario("contiguous", replace(_plain(settings, "contiguous"), num_blocks=blocks + 1, block_size=size,
                                           prefix_caching=False, watermark=0.0))]  # fmt: skip


def static(settings: Settings) -> list[Scenario]:
    """A batch starts together and ends with its longest request."""
    return [Scenario("static", replace(_plain(settings, "static"), prefix_caching=False), "static")]


def without_prefix_cache(settings: Settings) -> list[Scenario]:
    """Every prompt is computed whole."""
    return [Scenario("no-prefix-cache", replace(settings, prefix_caching=False, retention=0))]


def radix(settings: Settings) -> list[Scenario]:
    """Prefixes shared to the token, as in a radix tree: blocks of one token on the same memory."""
    plain = _plain(settings, "radix")
    return [Scenario("radix", replace(plain, num_blocks=plain.usable * plain.block_size + 1, block_size=1,
                                      prefix_caching=True))]  # fmt: skip


def block_sizes(settings: Settings) -> list[Scenario]:
    """The same memory in blocks of 8 to 128 tokens."""
    return [
        Scenario(f"block-size {size}", replace(settings, block_size=size, num_blocks=resized(settings, size)))
        for size in BLOCK_SIZES
        if size != settings.block_size
    ]


def resized(settings: Settings, block_size: int) -> int:
    """Return how many blocks of another size the same memory holds, the null block counted."""
    return settings.usable * settings.block_size // block_size + 1


BASELINES: Mapping[str, Callable[[Settings], list[Scenario]]] = {
    "contiguous": contiguous,
    "static": static,
    "no-prefix-cache": without_prefix_cache,
    "radix": radix,
    "block-sizes": block_sizes,
}


def _plain(settings: Settings, name: str) -> Settings:
    if not settings.plain:
        raise UsageError(f"{name} is compared for one group of full attention", "this model has several, or windows")
    return settings


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat of some turns: what it holds at its end, and how many tokens are computed with and without a cache."""

    tokens_at_end: int
    without_cache: int
    new_input: int

    @property
    def ratio(self) -> float:
        """How many times the work of a cache that reuses every token."""
        return self.without_cache / self.new_input


def chat(first: int, question: int, answer: int, turns: int) -> Chat:
    """Return a chat whose first prompt has `first` tokens and each later one repeats all before it."""
    prompts = [first + turn * (question + answer) for turn in range(turns)]
    return Chat(prompts[-1] + answer, sum(prompts), first + (turns - 1) * question)


@dataclass(frozen=True, slots=True)
class Swap:
    """What moving KV to the host and back takes: so many nanoseconds a token, and in any case."""

    token_ns: float
    fixed_ns: int


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Getting a preempted request of `tokens` tokens back: computing again what the prefix cache lost, or moving all.

    `break_even` is the length from which moving is cheaper than computing everything; None where it never is.
    """

    tokens: int
    computed_again: int
    recompute_ns: int
    swap_ns: int
    break_even: int | None


def reclaim(tokens: int, computed_again: int, token_ns: float, swap: Swap) -> Reclaim:
    """Compare the two; recomputing rides on a step that runs anyway, so only its tokens count."""
    saved = token_ns - swap.token_ns
    return Reclaim(
        tokens,
        computed_again,
        round(computed_again * token_ns),
        round(tokens * swap.token_ns + swap.fixed_ns),
        int(swap.fixed_ns // saved) + 1 if saved > 0 else None,
    )
