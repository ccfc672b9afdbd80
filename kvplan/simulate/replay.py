"""Requests become the engine's jobs: what its front end refuses, how many tokens each produces, n children a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from kvplan.simulate.request import Request
from kvplan.simulate.settings import Settings
from kvplan.simulate.tables import blocks_for, dropped
from kvplan.simulate.trace.problems import Problems

# `head_of_line_blocked`: nothing runs, nothing can be scheduled, and no arrival changes that. `no_progress`: requests
# take each other's blocks, or their own, and nobody gets to its next token. A real engine would not start with such a
# pool.
Status: TypeAlias = Literal["complete", "head_of_line_blocked", "no_progress"]


def patience(longest: int) -> int:
    """Return after how many steps without a sampled token a replay makes no progress.

    First come first served, the oldest running request is served first and gets a token at least, so it samples within
    as many steps as it is long; `longest` is the longest request so far.
    """
    return 2 * longest + 64


class Job(NamedTuple):
    """One request of the engine: `seq` counts arrivals, `max_tokens` is what it produces."""

    seq: int
    child: int
    request: Request
    max_tokens: int


def jobs(requests: Iterable[Request], settings: Settings, problems: Problems) -> Iterator[Job]:
    """Yield the jobs in the order of arrival, without the rows that the engine's front end refuses.

    Those whose prompt leaves no room for a token, that is. Rows that could never fit the pool are left out too: a real
    engine would not start with such a pool, and everybody behind them would wait for ever.
    The n children of a row share its prompt and nothing else: only the first can have given an answer that a later
    prompt repeats.
    """
    seq = 0
    for request in requests:
        room = settings.max_model_len - request.prompt
        if room <= 0:
            problems.note("prompt_too_long", request.row, f"a prompt of {request.prompt:,} tokens")
            continue
        output = request.output if settings.output_len_override is None else settings.output_len_override
        max_tokens = max(1, min(output, room))
        if least_blocks(request.prompt, max_tokens, settings) > settings.usable:
            problems.note("never_fits", request.row, f"{request.prompt + max_tokens:,} tokens")
            continue
        arrival = 0 if settings.arrival == "all" else int(request.arrival_ns // settings.speed)
        spans = request.spans
        if settings.n > 1 and not spans:
            spans = ((("row", request.row), request.prompt),)
        placed = request._replace(arrival_ns=arrival, spans=spans)
        for child in range(settings.n):
            yield Job(seq, child, placed if child == 0 else placed._replace(answer=None), max_tokens)
            seq += 1


def least_blocks(prompt: int, max_tokens: int, settings: Settings) -> int:
    """Return the blocks without which a request cannot end: those that its last step holds.

    The last sampled token never gets a slot: P and O tokens take ceil((P + O - 1) / block) blocks at their end.
    """
    size = settings.block_size
    slots = prompt + max_tokens - 1
    return sum(blocks_for(slots, size) - dropped(window, slots - 1, size) for window in settings.groups)
