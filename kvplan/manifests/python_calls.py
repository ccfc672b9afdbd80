"""The constants that a Python program hands to an engine: `EngineArgs(model=…, dtype="bfloat16")`.

Only tokens are looked at, so nothing is executed and no nesting can overflow a parser.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator

_CALLS = frozenset({"EngineArgs", "AsyncEngineArgs", "LLM", "ServerArgs"})
MAX_SOURCE = 128 * 1024  # characters


def constants(source: str) -> dict[str, object]:
    """Return the keywords of the engine's call that have a constant value, by name; empty where there is no call."""
    if len(source) > MAX_SOURCE:
        return {}
    found: dict[str, object] = {}
    words = list(_words(source))
    for begin in range(len(words) - 1):
        if words[begin].string in _CALLS and words[begin + 1].string == "(":
            found |= _keywords(words, begin + 2)
    return found


def _words(source: str) -> Iterator[tokenize.TokenInfo]:
    skipped = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in skipped:
                yield token
    except (tokenize.TokenError, SyntaxError):
        return


def _keywords(words: list[tokenize.TokenInfo], begin: int) -> dict[str, object]:
    found: dict[str, object] = {}
    depth = 0
    for i in range(begin, len(words) - 3):
        string = words[i].string
        if string in ("(", "[", "{"):
            depth += 1
        elif string in (")", "]", "}"):
            depth -= 1
            if depth < 0:
                break
        is_keyword = depth == 0 and words[i].type == tokenize.NAME and words[i + 1].string == "="
        if is_keyword and words[i + 3].string in (",", ")"):
            value = words[i + 2]
            if value.type in (tokenize.NUMBER, tokenize.STRING) or value.string in ("True", "False"):
                found[string] = _constant(value.string)
    return found


def _constant(word: str) -> object:
    try:
        return ast.literal_eval(word) if len(word) < 1000 else word
    except (ValueError, SyntaxError):
        return word
