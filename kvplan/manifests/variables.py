"""What `$NAME`, `${NAME:-x}` and `$(NAME)` stand for: the object's environment, the file's assignments, --set, --env.

A name that none of them has stays as it is written, and is reported by name. No variable of the process is looked at
unless --env asks for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from kvplan.manifests.arithmetic import NUMBER, evaluate
from kvplan.manifests.pieces import Arithmetic, Literal, Opaque, Piece, Variable, pieces_of
from kvplan.manifests.shell import Word
from kvplan.manifests.tree import Place

NOWHERE = Place(0, 0)  # of a value that is not written in the file
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)", re.ASCII)
MAX_WORDS = 5000  # of one array, or one command
MAX_VALUE = 64 * 1024  # characters of one value: a variable that doubles itself must end somewhere


@dataclass(frozen=True, slots=True)
class Field:
    """One word after expansion, and where it is written.

    `unknown` names the variables in it that have no value; `open`: the word is such a variable and nothing else, so it
    may stand for several words, or none.
    """

    text: str
    place: Place = field(default=NOWHERE, compare=False)
    unknown: tuple[str, ...] = ()
    open: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """What a variable holds: one text, or the entries of an array."""

    words: tuple[Field, ...]

    @classmethod
    def of(cls, text: str, unknown: Iterable[str] = ()) -> Known:
        """Return a variable that holds one text."""
        return cls((Field(text, unknown=tuple(dict.fromkeys(unknown))),))

    @classmethod
    def array(cls, words: Iterable[Field]) -> Known:
        """Return an array, cut where one that doubles itself outgrows any use."""
        kept: list[Field] = []
        size = 0
        for word in words:
            size += len(word.text)
            if len(kept) == MAX_WORDS or size > MAX_VALUE:
                break
            kept.append(word)
        return cls(tuple(kept))

    @property
    def text(self) -> str:
        """The value as one text."""
        return " ".join(word.text for word in self.words)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The variables within that have no value."""
        return tuple(dict.fromkeys(name for word in self.words for name in word.unknown))


Layer: TypeAlias = Mapping[str, Known | None]


@dataclass(slots=True)
class Scope:
    """Variables by name, the first layer that has a name deciding; None is a name whose value nobody can tell.

    `own` is the layer that assignments of a program go to.
    """

    below: tuple[Layer, ...] = ()
    own: dict[str, Known | None] = field(default_factory=dict)

    def lookup(self, name: str) -> Known | None:
        """Return what a variable holds, or None."""
        for layer in (self.own, *self.below):
            if name in layer:
                return layer[name]
        return None

    def over(self, layer: Layer) -> Scope:
        """Return a scope in which a layer lies over this one."""
        return Scope((layer, self.own, *self.below))


def layer(values: Mapping[str, str]) -> Layer:
    """Return texts as a layer."""
    return {name: Known.of(value) for name, value in values.items()}


def resolve_references(text: str, place: Place, scope: Scope) -> Field:
    """Expand what the kubelet does, `$(NAME)`, and leave a shell's own variables to the shell."""
    unknown: list[str] = []

    def value(found: re.Match[str]) -> str:
        known = scope.lookup(found[1])
        if known is None:
            unknown.append(found[1])
            return found[0]
        unknown.extend(known.unknown)
        return known.text[:MAX_VALUE]

    return Field(_REFERENCE.sub(value, text), place, tuple(dict.fromkeys(unknown)))


def resolve(text: str, place: Place, scope: Scope) -> Field:
    """Expand a value in which only `$` is special, as one word: an entry of an argument list."""
    return one_word(pieces_of(text), place, scope, raw=text)


def one_word(pieces: Iterable[Piece], place: Place, scope: Scope, *, raw: str) -> Field:
    """Expand pieces without splitting them into words."""
    found = tuple(pieces)
    texts: list[str] = []
    unknown: list[str] = []
    for piece in found:
        value = _value(piece, scope)
        texts.append(value.text)
        unknown += value.unknown
    text = "".join(texts)
    if len(text) > MAX_VALUE:
        return Field(raw[:MAX_VALUE], place, tuple(unknown) or (raw[:60],))
    is_open = len(found) == 1 and isinstance(found[0], Variable | Opaque) and bool(unknown) and text == raw
    return Field(text, place, tuple(dict.fromkeys(unknown)), is_open)


def expand(word: Word, scope: Scope) -> tuple[list[Field], tuple[str, ...]]:
    """Expand a word of a program into words, and name the variables without a value that left nothing behind."""
    found = _Fields(word.place)
    dropped: list[str] = []
    for piece in word.pieces:
        value = _value(piece, scope)
        if not value.text:
            dropped += value.unknown
        if isinstance(piece, Variable) and piece.every and piece.quoted:
            found.add_words(value.words)
        elif piece.quoted or isinstance(piece, Literal | Opaque):
            found.add(value.text, value.unknown)
        else:
            found.add_words(_split(value))
    found.close()
    if len(word.pieces) == 1 and _is_open(word.pieces[0], word.raw.strip('"'), found.fields):
        found.fields = [replace(found.fields[0], open=True)]
    return found.fields, tuple(dict.fromkeys(dropped))


class _Fields:
    """Puts the values of pieces together to words, as they touch each other."""

    def __init__(self, place: Place) -> None:
        self.fields: list[Field] = []
        self._place = self._default = place
        self._text: str | None = None
        self._unknown: list[str] = []

    def add(self, text: str, unknown: Iterable[str]) -> None:
        """Append to the word that is being made."""
        self._text = (self._text or "") + text
        self._unknown += unknown

    def add_words(self, words: Iterable[Field]) -> None:
        """Append words: the first joins what stands before it, the last what follows."""
        for number, word in enumerate(words):
            if number:
                self.close()
            if self._text is None and word.place != NOWHERE:
                self._place = word.place
            self.add(word.text, word.unknown)

    def close(self) -> None:
        """End the word that is being made."""
        if self._text is not None:
            self.fields.append(Field(self._text[:MAX_VALUE], self._place, tuple(dict.fromkeys(self._unknown))))
        self._text, self._place, self._unknown = None, self._default, []


def _split(value: Known) -> Iterator[Field]:
    """Split an unquoted value at blanks; a part has those unknown variables whose names stand in it."""
    for word in value.words:
        for part in word.text.split():
            yield Field(part, word.place, tuple(name for name in word.unknown if name in part))


def _is_open(piece: Piece, raw: str, fields: list[Field]) -> bool:
    whole = len(fields) == 1 and bool(fields[0].unknown) and fields[0].text == raw
    return whole and (not piece.quoted or (isinstance(piece, Variable) and piece.every))


def _value(piece: Piece, scope: Scope) -> Known:
    match piece:
        case Literal(text=text):
            return Known.of(text)
        case Opaque(names=names, raw=raw):
            return Known.of(raw, names or (raw[:60],))
        case Arithmetic():
            return _arithmetic(piece, scope)
        case Variable():
            return _variable(piece, scope)


def _variable(piece: Variable, scope: Scope) -> Known:
    known = scope.lookup(piece.name)
    has_value = known is not None and bool(known.text or ":" not in piece.operator)
    match piece.operator.lstrip(":"):
        case "+":
            if known is None:
                return Known.of("", (piece.name,))
            return _operand(piece, scope) if has_value else Known.of("")
        case "-" | "=":
            # a value of which nothing is known may be empty, as a script's `$1` is without arguments
            if known is None or not has_value or known.unknown:
                known = _operand(piece, scope)
            if piece.operator.endswith("="):
                scope.own[piece.name] = known
            return known
    return known if known is not None else Known.of(piece.raw, (piece.name,))


def _operand(piece: Variable, scope: Scope) -> Known:
    values = [_value(inner, scope) for inner in piece.operand]
    text = "".join(value.text for value in values)
    if len(text) > MAX_VALUE:
        return Known.of(piece.raw, (piece.name,))
    return Known.of(text, [name for value in values for name in value.unknown])


def _arithmetic(piece: Arithmetic, scope: Scope) -> Known:
    """Work out an expression; what it lacks is named."""
    lacking: list[str] = []

    def number(name: str) -> int:
        known = scope.lookup(name)
        if known is None or not NUMBER.fullmatch(known.text.strip()):
            lacking.append(name)
            return 1
        return int(known.text)

    result = evaluate(piece.expression, number)
    if lacking or result is None:
        return Known.of(piece.raw, lacking or (piece.raw,))
    return Known.of(str(result))
