"""The prefix chain: which blocks hold the same tokens after the same tokens.

vLLM hashes the tokens of a block with the hash of the block before it. Here the tokens are named by the sources that
they come from, and the hash is a number given on first sight: equal exactly where the tokens are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from kvplan.simulate.request import Request, Source, Span

# (source, offset, tokens): a stretch of one source inside a block
Piece: TypeAlias = tuple[Source, int, int]


def token_spans(request: Request, seq: int, max_tokens: int) -> tuple[Span, ...]:
    """Return the spans of the prompt and of what will be generated, which nothing else equals unless it is named."""
    prompt = request.spans or ((("row", request.row), request.prompt),)
    return (*prompt, (("out", seq) if request.answer is None else request.answer, max_tokens))


def block_contents(spans: tuple[Span, ...], block_size: int) -> Iterator[tuple[Piece, ...]]:
    """Yield what each full block holds, from the first on."""
    block: list[Piece] = []
    room = block_size
    for source, tokens in spans:
        offset = 0
        while offset < tokens:
            taken = min(room, tokens - offset)
            block.append((source, offset, taken))
            offset += taken
            room -= taken
            if not room:
                yield tuple(block)
                block, room = [], block_size


class Chain:
    """The numbers that stand for hashes. The first block's parent is its salt: under another, a text is another."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int | str, tuple[Piece, ...]], int] = {}

    def number(self, parent: int | str, content: tuple[Piece, ...]) -> int:
        """Return the number of a block that follows another."""
        return self._numbers.setdefault((parent, content), len(self._numbers))
