"""Requests become the engine's jobs: what its front end refuses, how many tokens each will produce, n children a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from kvplan.simulate.request import Request
from kvplan.simulate.settings import Settings

# `head_of_line_blocked`: nothing runs, nothing can be scheduled, and no arrival changes that. A real engine refuses to
# start with such a pool; this one would serve nobody any more.
Status: TypeAlias = Literal["complete", "head_of_line_blocked"]


class Job(NamedTuple):
    """One request of the engine: `seq` counts arrivals, `max_tokens` is what it produces."""

    seq: int
    child: int
    request: Request
    max_tokens: int


def jobs(requests: Iterable[Request], settings: Settings, reject: Callable[[Request], None]) -> Iterator[Job]:
    """Yield the jobs in the order of arrival; `reject` hears of prompts that leave no room for a token."""
    seq = 0
    for request in requests:
        room = settings.max_model_len - request.prompt
        if room <= 0:
            reject(request)
            continue
        output = request.output if settings.output_len_override is None else settings.output_len_override
        arrival = 0 if settings.arrival == "all" else int(request.arrival_ns // settings.speed)
        placed = request._replace(arrival_ns=arrival)
        for child in range(settings.n):
            yield Job(seq, child, placed, max(1, min(output, room)))
            seq += 1
