"""The pieces of a shell word: text, variables, arithmetic, and what only a shell could tell.

An expansion that is not known here becomes an `Opaque` piece, whose value nobody can tell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

_MAX_NESTING = 8  # ${a:-${b:-…}}; public scripts nest two
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IN_BRACES = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])(\[[@*]\])?(?:(:?[-=+?])(.*))?", re.DOTALL)
_OPENERS = {"$(": ")", "${": "}"}


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that stands for itself; unquoted text may be a keyword."""

    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`, or `${name}` with an operator (`:-`, `-`, `:=`, `=`, `:+`, `+`, `:?`, `?`) and its operand."""

    name: str
    operator: str
    operand: tuple[Piece, ...]
    quoted: bool
    raw: str
    every: bool = False  # ${name[@]}: all entries of an array, each its own word


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((expression))`."""

    expression: str
    quoted: bool
    raw: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """An expansion that only a shell can make: a command's output, a pattern cut off."""

    names: tuple[str, ...]
    quoted: bool
    raw: str


Piece: TypeAlias = Literal | Variable | Arithmetic | Opaque


def pieces_of(text: str, *, quoted: bool = True, depth: int = 0) -> tuple[Piece, ...]:
    """Return the pieces of a text in which only `$` is special, as in a value that Kubernetes or compose expands."""
    found: list[Piece] = []
    begin = 0
    while (i := text.find("$", begin)) >= 0:
        piece, end = expansion(text, i, quoted=quoted, depth=depth)
        if i > begin:
            found.append(Literal(text[begin:i], quoted))
        found.append(piece)
        begin = end
    if begin < len(text):
        found.append(Literal(text[begin:], quoted))
    return tuple(found)


def pieces_in_quotes(text: str) -> list[Piece]:
    """Return the pieces between double quotes, where a backslash escapes only what is special there."""
    found: list[Piece] = []
    begin = i = 0
    literal = ""
    while i < len(text):
        if text[i] == "\\" and text[i + 1 : i + 2] in ("$", "`", '"', "\\", "\n"):
            literal += text[begin:i] + text[i + 1].strip("\n")
            begin = i = i + 2
        elif text[i] in "$`":
            literal += text[begin:i]
            if literal:
                found.append(Literal(literal, quoted=True))
            literal = ""
            piece, i = expansion(text, i, quoted=True, in_shell=True)
            found.append(piece)
            begin = i
        else:
            i += 1
    literal += text[begin:]
    return [*found, Literal(literal, quoted=True)] if literal else found


def expansion(text: str, i: int, *, quoted: bool, depth: int = 0, in_shell: bool = False) -> tuple[Piece, int]:
    """Read the expansion that starts at a `$` or a backtick, and return it with the offset after it.

    `$(NAME)` is how Kubernetes writes a variable, whose value is there before a shell looks. Where
    the text is a shell's, it is one only in upper case: `$(nproc)` is a command.
    """
    if text[i] == "`":
        end = text.find("`", i + 1)
        end = end + 1 if end >= 0 else len(text)
        return Opaque((), quoted, text[i:end]), end
    if text.startswith("$((", i):
        end = closed(text, i + 2, ")")
        raw = text[i:end]
        return Arithmetic(raw[3:].removesuffix("))"), quoted, raw), end
    if text.startswith("$(", i):
        end = closed(text, i + 2, ")")
        raw = text[i:end]
        name = raw[2:].removesuffix(")")
        is_variable = _NAME.fullmatch(name) is not None and (not in_shell or name == name.upper())
        return (Variable(name, "", (), quoted, raw) if is_variable else Opaque((), quoted, raw)), end
    if text.startswith("${", i):
        end = closed(text, i + 2, "}")
        return _braced(text[i:end], quoted=quoted, depth=depth), end
    if found := _NAME.match(text, i + 1):
        return Variable(found[0], "", (), quoted, text[i : found.end()]), found.end()
    special = text[i + 1 : i + 2]
    if special and special in "0123456789@*":
        return Variable(special, "", (), quoted, text[i : i + 2], every=special in "@*"), i + 2
    if special and special in "#?$!-":
        return Opaque((), quoted, text[i : i + 2]), i + 2
    return Literal("$", quoted), i + 1


def _braced(raw: str, *, quoted: bool, depth: int) -> Piece:
    found = _IN_BRACES.fullmatch(raw[2:].removesuffix("}"))
    if found is None or depth >= _MAX_NESTING:
        name = _NAME.match(raw, 2)
        return Opaque((name[0],) if name else (), quoted, raw)
    operand = found[4] or ""
    quotes = ('"',) if quoted else ('"', "'")
    if len(operand) > 1 and operand[0] in quotes and operand[-1] == operand[0]:
        operand = operand[1:-1]
    every = bool(found[2]) or found[1] in ("@", "*")
    inner = pieces_of(operand, quoted=quoted, depth=depth + 1)
    return Variable(found[1], found[3] or "", inner, quoted, raw, every=every)


def closed(text: str, i: int, closer: str) -> int:
    """Return the offset after the closer of what was opened before `i`, past what is nested; the end where it lacks."""
    waiting = [closer]
    while i < len(text):
        c = text[i]
        if c == "\\" and waiting[-1] != "'":
            i += 2
            continue
        if c == waiting[-1]:
            waiting.pop()
            if not waiting:
                return i + 1
        elif text[i : i + 2] in _OPENERS:
            waiting.append(_OPENERS[text[i : i + 2]])
            i += 1
        elif waiting[-1] == ")" and c in "('\"":
            if c == "'":
                i = text.find("'", i + 1)
                if i < 0:
                    return len(text)
            else:
                waiting.append(")" if c == "(" else '"')
        elif waiting[-1] == "}" and c == '"':
            waiting.append('"')
        i += 1
    return len(text)
