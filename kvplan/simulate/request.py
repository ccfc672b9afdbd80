"""One request of a trace: how long it is, when it comes, and which of its tokens others share."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

# What tokens come from: a number or a text that a file names; kvplan's own sources are pairs, so that none collides
Source: TypeAlias = int | str | tuple[str, int]
# That many tokens from the start of a source. Two prompts share a prefix as far as their spans are equal.
Span: TypeAlias = tuple[Source, int]


class Request(NamedTuple):
    """A row of a trace, checked. A tuple, because ten million of them are made: 0.3 us each, a frozen record 1.2 us.

    `spans` covers the prompt, or is empty where nothing is known of it: then no other row shares a token with it.
    `answer` names the generated tokens where a later prompt repeats them. `arrival_ns` counts from the first row.
    """

    row: int
    arrival_ns: int
    prompt: int
    output: int
    spans: tuple[Span, ...] = ()
    answer: Source | None = None
    priority: int = 0
    salt: str = ""
