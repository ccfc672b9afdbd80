"""A shell program followed as it is written, without running it: assignments, branches, loops, functions.

What a branch may or may not have done is told only where it makes no difference: a variable keeps its value over an
`if` when the file states one value for it, and has none when it states several. Inside a branch its own assignments
count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kvplan.manifests.grammar import Step, body, steps
from kvplan.manifests.pieces import Literal, Opaque, Piece, Variable
from kvplan.manifests.shell import Array, Token, Word
from kvplan.manifests.variables import MAX_WORDS, Field, Known, Scope, expand, one_word

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_DECLARING = frozenset({"export", "declare", "local", "readonly", "typeset"})
MAX_COMMANDS = 20_000  # steps of one program, functions and all
_MAX_VARIABLES = 1000
_MAX_CALLS = 8


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command after expansion; `dropped` names variables without a value that left no word behind."""

    fields: tuple[Field, ...]
    dropped: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


Handler: TypeAlias = Callable[[Command, Scope], None]


@dataclass(slots=True)
class _Branching:
    """An open `if`, loop, `case` or subshell: the variables before it, and after each branch that is done."""

    kind: str
    before: dict[str, Known | None]
    after: list[dict[str, Known | None]] = field(default_factory=list)
    exhaustive: bool = False


def run(tokens: Sequence[Token], scope: Scope, handle: Handler) -> None:
    """Follow a program and hand each simple command to `handle`, in order."""
    _Program(scope, handle).follow(list(steps(tokens)))


class _Program:
    """The state of a program while it is followed."""

    def __init__(self, scope: Scope, handle: Handler) -> None:
        self.scope = scope
        self.handle = handle
        self.open: list[_Branching] = []
        self.functions: dict[str, list[Step]] = {}
        self.called: set[str] = set()
        self.steps = 0
        self.depth = 0

    def follow(self, program: list[Step]) -> None:
        """Follow steps; a function that nothing calls is followed last, as it stands."""
        self._through(program)
        for name in [name for name in self.functions if name not in self.called]:
            self._call(name, None)

    def _through(self, program: list[Step]) -> None:
        position = 0
        while position < len(program) and self.steps < MAX_COMMANDS:
            self.steps += 1
            keyword, words = program[position]
            position += 1
            if keyword == "function":
                name = words[0].bare if words and isinstance(words[0], Word) else ""
                self.functions[name], position = body(program, position)
            elif keyword == "run":
                self._run(words)
            else:
                self._branch(keyword, words)

    def _branch(self, keyword: str, words: tuple[Word | Array, ...]) -> None:
        match keyword:
            case "if" | "while" | "until" | "case" | "(":
                self._enter(keyword)
            case "for":
                self._enter(keyword)
                self._loop_variable(words)
            case "then" | "do":
                self._again()
            case "elif" | "else" | "branch":
                self._next(exhaustive=keyword == "else" or _matches_all(words))
            case "fi" | "done" | "esac" | ")":
                self._leave()

    # -- branches ------------------------------------------------------------------------------------------------------

    def _enter(self, kind: str) -> None:
        self.open.append(_Branching(kind, dict(self.scope.own)))

    def _again(self) -> None:
        """Begin the body after a condition, whose assignments hold on both sides."""
        if self.open and not self.open[-1].after:
            self.open[-1].before = dict(self.scope.own)

    def _next(self, *, exhaustive: bool) -> None:
        if not self.open:
            return
        here = self.open[-1]
        here.after.append(self.scope.own)
        here.exhaustive |= exhaustive
        self.scope.own = dict(here.before)

    def _leave(self) -> None:
        if not self.open:
            return
        here = self.open.pop()
        if here.kind == "(":
            self.scope.own = here.before
            return
        outcomes = [*here.after, self.scope.own]
        self.scope.own = _merged(outcomes if here.exhaustive else [here.before, *outcomes])

    def _loop_variable(self, words: tuple[Word | Array, ...]) -> None:
        """Give the variable of `for x in words` its value where there is but one."""
        names = [word for word in words if isinstance(word, Word)]
        if not names or not names[0].bare:
            return
        values = [f for word in names[2:] for f in expand(word, self.scope)[0]]
        one = len(values) == 1 and not values[0].unknown
        self._set(names[0].bare, Known((values[0],)) if one else None)

    # -- commands ------------------------------------------------------------------------------------------------------

    def _run(self, words: tuple[Word | Array, ...]) -> None:
        rest = list(words)
        environment: list[tuple[str, str]] = []
        declaring = isinstance(rest[0], Word) and rest[0].bare in _DECLARING
        if declaring:
            rest = [word for word in rest[1:] if not (isinstance(word, Word) and word.bare.startswith("-"))]
        values = []
        while rest and (found := self._assignment(rest[0])) is not None:
            values.append(found)
            rest.pop(0)
        if not rest or declaring:
            for name, value in values:
                self._set(name, value)
            return
        environment = [(name, value.text) for name, value in values if value is not None]
        fields: list[Field] = []
        dropped: list[str] = []
        for word in rest:
            if isinstance(word, Word) and len(fields) < MAX_WORDS:
                found_fields, without = expand(word, self.scope)
                fields += found_fields
                dropped += without
        if fields and not self._builtin(fields):
            self.handle(Command(tuple(fields), tuple(dropped), tuple(environment)), self.scope)

    def _builtin(self, fields: list[Field]) -> bool:
        """Follow what changes variables or calls a function; False for anything else."""
        name, rest = fields[0].text, fields[1:]
        if name in self.functions and self.depth < _MAX_CALLS:
            self._call(name, rest)
        elif name == "set" and rest and rest[0].text == "--":
            self._positional(rest[1:])
        elif name == "unset":
            for each in rest:
                self.scope.own.pop(each.text, None)
        elif name == "read":
            for each in rest:
                self._set(each.text, None)
        else:
            return False
        return True

    def _call(self, name: str, arguments: list[Field] | None) -> None:
        """Follow a function's body; arguments of None are not known, as where nothing in the file calls it."""
        self.called.add(name)
        outer = {key: value for key, value in self.scope.own.items() if key.isdigit() or key == "@"}
        self._positional(arguments)
        self.depth += 1
        self._through(self.functions[name])
        self.depth -= 1
        self._forget_positional()
        self.scope.own |= outer

    def _positional(self, arguments: list[Field] | None) -> None:
        self._forget_positional()
        if arguments is None or any(argument.unknown for argument in arguments):
            return
        self.scope.own["@"] = Known(tuple(arguments))
        for number, argument in enumerate(arguments[:9], start=1):
            self.scope.own[str(number)] = Known((argument,))

    def _forget_positional(self) -> None:
        for key in [key for key in self.scope.own if key.isdigit() or key == "@"]:
            del self.scope.own[key]

    def _assignment(self, word: Word | Array) -> tuple[str, Known | None] | None:
        if isinstance(word, Array):
            value = Known.array(f for inner in word.words for f in expand(inner, self.scope)[0])
            return word.name, _joined(self.scope.lookup(word.name), value) if word.append else value
        first = word.pieces[0] if word.pieces else None
        found = _ASSIGNMENT.match(first.text) if isinstance(first, Literal) and not first.quoted else None
        if found is None or not isinstance(first, Literal):
            return None
        pieces: list[Piece] = [Literal(first.text[found.end() :], quoted=False), *word.pieces[1:]]
        if any(isinstance(piece, Opaque) or (isinstance(piece, Variable) and _is_argument(piece)) for piece in pieces):
            known = one_word(pieces, word.place, self.scope, raw=word.raw)
            if known.unknown:
                return found[1], None  # a command's output, an argument: the variable itself is what has no value
        value_field = one_word(pieces, word.place, self.scope, raw=word.raw)
        value = Known((value_field,))
        if found[2]:
            before = self.scope.lookup(found[1])
            value = Known.of((before.text if before else "") + value.text, value.unknown)
        return found[1], value

    def _set(self, name: str, value: Known | None) -> None:
        if name in self.scope.own or len(self.scope.own) < _MAX_VARIABLES:
            self.scope.own[name] = value


def _is_argument(piece: Variable) -> bool:
    return piece.name.isdigit() or piece.name in "@*"


def _joined(before: Known | None, after: Known) -> Known:
    return after if before is None else Known.array((*before.words, *after.words))


def _matches_all(words: tuple[Word | Array, ...]) -> bool:
    return bool(words) and isinstance(words[0], Word) and words[0].bare == "*"


def _merged(outcomes: list[dict[str, Known | None]]) -> dict[str, Known | None]:
    """Return what holds whichever branch was taken: the one value that the branches state, else none."""
    first = outcomes[0]
    differing = {name for other in outcomes for name, value in other.items() if first.get(name, other) is not value}
    merged = dict(first)
    for name in differing:
        stated = {outcome[name] for outcome in outcomes if name in outcome}
        certain = {value for value in stated if value is not None and not value.unknown}
        choice = certain or stated
        merged[name] = next(iter(choice)) if len(choice) == 1 else None
    return merged
