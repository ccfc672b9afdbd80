"""What `kvplan fit` is asked for, and what it answers with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.hardware import Gpu
from kvplan.model.spec import ModelSpec
from kvplan.planner import Note, Plan


@dataclass(frozen=True, slots=True)
class Wish:
    """So many requests at once, each of so many tokens."""

    concurrency: int
    context: int


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run the model: `data` copies of an engine, each over `tensor` GPUs, all of one card.

    `plan` is one copy's. `requests` are those of the wished context that all copies hold at once, as the engine prints
    them and no more than it runs at once; 0 where it would not start. `left_bytes` of a GPU's pool stay free under the
    wished load. `flags` are those that one copy needs, by vLLM's names.
    """

    plan: Plan
    tensor: int
    data: int
    requests: float
    left_bytes: int | None
    meets: bool
    flags: Mapping[str, Any]
    cost: float | None = None

    @property
    def gpus(self) -> int:
        """The number of cards."""
        return self.tensor * self.data


@dataclass(frozen=True, slots=True)
class CardAnswer:
    """One card under one engine.

    `options` hold the fewest GPUs of each KV dtype that meets the wish, best first; `layouts` every split of the best
    one's GPUs into TP x DP that would start. Where nothing meets it, `closest` came nearest.
    """

    engine: str
    gpu: Gpu
    options: tuple[Option, ...]
    layouts: tuple[Option, ...]
    closest: Option | None

    @property
    def best(self) -> Option | None:
        """The option that stands for the card."""
        return self.options[0] if self.options else None


@dataclass(frozen=True, slots=True)
class Refused:
    """Tensor-parallel sizes that the model does not allow under an engine, and why."""

    engine: str
    sizes: tuple[int, ...]
    reason: Note


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer: `found` by rank, then the cards that do not do it, nearest first.

    `unplanned` are cards on which the engines run a worker whose rules kvplan does not know.
    """

    model: ModelSpec
    wish: Wish
    engines: tuple[str, ...]
    max_gpus: int
    found: tuple[CardAnswer, ...]
    failed: tuple[CardAnswer, ...]
    refused: tuple[Refused, ...]
    currency: str | None = None
    unpriced: int = 0
    unplanned: tuple[Gpu, ...] = ()
