"""A shell program cut into steps: simple commands, and the keywords of branches, loops and functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from kvplan.manifests.shell import Array, Operator, Token, Word

Step: TypeAlias = tuple[str, tuple[Word | Array, ...]]
_CONDITIONS = frozenset({"if", "while", "until"})
_LOOPS = frozenset({"for", "select"})
_ALONE = frozenset({"then", "do", "else", "elif", "!", "time", "{", "fi", "done", "esac", "}"})
_CLOSING = frozenset({"(", ")", ";;", ";&", ";;&"})


def steps(tokens: Sequence[Token]) -> Iterator[Step]:
    """Yield `run` with the words of each simple command, and keywords with the words that belong to them.

    Keywords are bash's own, and `function` (its name), `branch` (the patterns of a case).
    """
    words: list[Word | Array] = []
    cases = 0
    for token in tokens:
        if not isinstance(token, Operator):
            word = token.bare if isinstance(token, Word) else ""
            if not words and word in _ALONE | _CONDITIONS:
                yield word, ()
                cases -= word == "esac"
            elif word == "in" and _first(words) == "case":
                yield "case", tuple(words[1:])
                words, cases = [], cases + 1
            else:
                words.append(token)
        elif token.text == "|" and cases and len(words) == 1:
            continue  # between the patterns of a case
        elif token.text == ")" and cases and words:
            yield "branch", tuple(words)
            words = []
        elif token.text == "(" and len(words) == 1 and _first(words) not in _LOOPS | {""}:
            yield "function", tuple(words)
            words = []
        else:
            yield from _command(words)
            words = []
            if token.text in _CLOSING:
                yield token.text, ()
    yield from _command(words)


def body(program: Sequence[Step], position: int) -> tuple[list[Step], int]:
    """Return the steps of the function body that begins at or after `position`, and the position after its end."""
    while position < len(program) and program[position][0] in ("(", ")"):
        position += 1
    if position >= len(program) or program[position][0] != "{":
        return [], position
    depth = 0
    for end in range(position, len(program)):
        depth += {"{": 1, "}": -1}.get(program[end][0], 0)
        if depth == 0:
            return list(program[position + 1 : end]), end + 1
    return list(program[position + 1 :]), len(program)


def _first(words: Sequence[Word | Array]) -> str:
    return words[0].bare if words and isinstance(words[0], Word) else ""


def _command(words: list[Word | Array]) -> Iterator[Step]:
    first = _first(words)
    if first in _LOOPS:
        yield "for", tuple(words[1:])
    elif first == "function":
        yield "function", tuple(words[1:2])
        if len(words) > 2:  # `function name { command`, on one line
            yield "{", ()
            yield from _command(words[3:])
    elif words:
        yield "run", tuple(words)
