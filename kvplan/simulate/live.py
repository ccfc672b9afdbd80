"""A request inside the step-by-step engine, and what one step does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kvplan.simulate.content import Piece, block_contents, token_spans
from kvplan.simulate.request import Request
from kvplan.simulate.settings import Settings


class Live:
    """A request inside the engine. Lengths are tokens; a table is a list of block ids a group."""

    def __init__(self, request: Request, seq: int, child: int, max_tokens: int, settings: Settings) -> None:
        self.request = request
        self.seq = seq
        self.child = child
        self.prompt = request.prompt
        self.max_tokens = max_tokens
        self.known = request.prompt
        self.computed = 0
        self.pending = 0
        self.in_flight = 0
        self.stale = 0
        self.tables: list[list[int]] = [[] for _ in settings.groups]
        self.keyed = [0] * len(settings.groups)
        self.junction = 0
        self.preemptions = 0
        self.chain: list[int] = []
        self.contents: Iterator[tuple[Piece, ...]] = block_contents(
            token_spans(request, seq, max_tokens), settings.block_size
        )


@dataclass(slots=True)
class Share:
    """What a step gives a request: `tokens` from position `start` on; it samples if that reaches the end."""

    live: Live
    start: int
    tokens: int
    samples: bool = False


@dataclass(slots=True)
class Step:
    """What one step did. `budget` is the tokens still to give; lookups are counted when the admission succeeds."""

    budget: int
    shares: list[Share] = field(default_factory=list)
    preempted: list[Live] = field(default_factory=list)
    lookups: list[tuple[Live, int, int]] = field(default_factory=list)  # request, tokens asked for, tokens hit
    evicted: int = 0
