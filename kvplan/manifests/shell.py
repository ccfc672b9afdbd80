"""The tokens of a shell program: words with their places, arrays and operators.

Comments, redirections and here-documents are left out. Only reading: `script.py` follows what the words do. Of bash's
grammar this knows what serving scripts use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from kvplan.manifests.pieces import Literal, Opaque, Piece, closed, expansion, pieces_in_quotes
from kvplan.manifests.tree import Place

MAX_PROGRAM = 512 * 1024  # characters; the longest public serving script has 60,000
_PLAIN = re.compile(r"[^\s'\"\\$`;&|()<>]+")
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;&|()\n]")
_REDIRECT = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|>>|>&|>\||[<>]")
_ARRAY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=\(")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'?", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}


@dataclass(frozen=True, slots=True)
class Word:
    """One word as written."""

    pieces: tuple[Piece, ...]
    place: Place
    raw: str

    @property
    def bare(self) -> str:
        """The word where it is one unquoted text, as keywords are; else an empty string."""
        match self.pieces:
            case (Literal(text=text, quoted=False),):
                return text
        return ""


@dataclass(frozen=True, slots=True)
class Array:
    """`name=(words)` or `name+=(words)`."""

    name: str
    append: bool
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """What ends a command: `;`, `&&`, a line end, a bracket."""

    text: str


Token: TypeAlias = Word | Array | Operator


def tokens(text: str, locate: Callable[[int, str], Place]) -> Iterator[Token]:
    """Yield the tokens of a program; `locate` turns an offset and the word there into a place of the file."""
    if len(text) <= MAX_PROGRAM:
        yield from _Lexer(text, locate).tokens()


class _Lexer:
    """One pass over a program."""

    __slots__ = ("_here", "_i", "_locate", "_text")

    def __init__(self, text: str, locate: Callable[[int, str], Place]) -> None:
        self._text = text
        self._locate = locate
        self._i = 0
        self._here: list[tuple[str, bool]] = []  # here-documents whose bodies follow the line: delimiter, tabs cut

    def tokens(self) -> Iterator[Token]:
        """Yield the tokens; the target of a redirection is none."""
        text, target = self._text, False
        while (begin := self._skip_blanks()) < len(text):
            if found := _ARRAY.match(text, begin):
                yield self._array(found)
            elif found := _REDIRECT.match(text, begin):
                if text.startswith(("<(", ">("), begin):
                    self._i = closed(text, begin + 2, ")")
                    continue
                self._i = found.end()
                if found[0] in ("<<", "<<-"):
                    self._delimiter(cut=found[0] == "<<-")
                else:
                    target = True
                continue
            elif found := _OPERATOR.match(text, begin):
                self._i = found.end()
                if found[0] == "\n":
                    self._skip_bodies()
                yield Operator(found[0])
            else:
                word = self._word()
                if target or self._is_descriptor(word):
                    target = False
                    continue
                yield word
            target = False

    def _skip_blanks(self) -> int:
        text = self._text
        while self._i < len(text):
            if text[self._i] in " \t\r\f\v":
                self._i += 1
            elif text.startswith("\\\n", self._i):
                self._i += 2
            elif text[self._i] == "#":
                end = text.find("\n", self._i)
                self._i = end if end >= 0 else len(text)
            else:
                break
        return self._i

    def _is_descriptor(self, word: Word) -> bool:
        return word.bare.isdigit() and _REDIRECT.match(self._text, self._i) is not None

    def _word(self) -> Word:
        begin = self._i
        pieces: list[Piece] = []
        text = self._text
        while self._i < len(text) and (not text[self._i].isspace()) and text[self._i] not in ";&|()<>":
            pieces += self._pieces()
        if self._i == begin:  # a character that starts nothing
            self._i += 1
        raw = text[begin : self._i]
        return Word(_joined(pieces), self._locate(begin, raw), raw)

    def _pieces(self) -> list[Piece]:
        text, i = self._text, self._i
        match text[i]:
            case "'":
                end = text.find("'", i + 1)
                end = end if end >= 0 else len(text)
                self._i = end + 1
                return [Literal(text[i + 1 : end], quoted=True)]
            case '"':
                end = closed(text, i + 1, '"')
                self._i = end
                return pieces_in_quotes(text[i + 1 : end - 1 if text[end - 1 : end] == '"' else end]) or [
                    Literal("", quoted=True)
                ]
            case "\\":
                self._i = i + 2
                skipped = text[i + 1 : i + 2]
                return [] if skipped == "\n" else [Literal(skipped, quoted=True)]
            case "$" if text.startswith("$'", i):
                return [self._ansi()]
            case "$" if text.startswith('$"', i):  # to be translated, and untranslated here
                self._i = i + 1
                return []
            case "$" | "`":
                piece, self._i = expansion(text, i, quoted=False, in_shell=True)
                return [piece]
        if text.startswith("{{", i) and (end := text.find("}}", i)) >= 0:  # a controller's template, filled in later
            self._i = end + 2
            return [Opaque((), quoted=False, raw=text[i : self._i])]
        found = _PLAIN.match(text, i)
        self._i = found.end() if found else i + 1
        return [Literal(text[i : self._i], quoted=False)]

    def _ansi(self) -> Literal:
        """Read `$'…'`, whose escapes are C's."""
        found = _ANSI.match(self._text, self._i)
        assert found is not None, "the caller saw the opening"
        self._i = found.end()
        return Literal(re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), found[1], flags=re.DOTALL), quoted=True)

    def _array(self, found: re.Match[str]) -> Array:
        self._i = found.end()
        words = []
        while self._skip_blanks() < len(self._text) and self._text[self._i] != ")":
            if self._text[self._i] == "\n":
                self._i += 1
            else:
                words.append(self._word())
        self._i += 1
        return Array(found[1], found[2] == "+", tuple(words))

    def _delimiter(self, *, cut: bool) -> None:
        self._skip_blanks()
        word = self._word()
        self._here.append(("".join(p.text for p in word.pieces if isinstance(p, Literal)), cut))

    def _skip_bodies(self) -> None:
        for delimiter, cut in self._here:
            while self._i < len(self._text):
                end = self._text.find("\n", self._i)
                end = end if end >= 0 else len(self._text)
                line = self._text[self._i : end]
                self._i = end + 1
                if (line.lstrip("\t") if cut else line) == delimiter:
                    break
        self._here.clear()


def _joined(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Join neighbouring texts of the same kind, as a continued line leaves them."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if isinstance(piece, Literal) and isinstance(last, Literal) and piece.quoted == last.quoted:
            found[-1] = Literal(last.text + piece.text, piece.quoted)
        else:
            found.append(piece)
    return tuple(found)
