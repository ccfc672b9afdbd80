"""A command line read as the engine's own parser reads it: aliases, prefixes, arity, dotted JSON, the last one wins."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kvplan.manifests.flags import MODEL_NAMES, Flag, Table, value_of
from kvplan.manifests.tree import Place, typed
from kvplan.manifests.variables import Field

_LEVEL = re.compile(r"-O=?([0-3])?", re.ASCII)
_SWITCHES = ("enable-", "disable-", "no-", "use-", "is-", "trust-", "skip-")
_NEGATIVE_NUMBER = re.compile(r"-[0-9.]+", re.ASCII)
_TEMPLATE = re.compile(r"\{\{[^{}]{0,200}\}\}")
_MAX_DOTS = 8


@dataclass(frozen=True, slots=True)
class Argument:
    """A flag that was given: its value, typed, and where it is written.

    `flag` is the spelling; `known`: the engine's table has it; `unknown` names the variables in it without a value.
    """

    name: str
    value: Any
    flag: str
    place: Place
    known: bool = True
    unknown: tuple[str, ...] = ()


@dataclass(slots=True)
class Parsed:
    """What a command line says. `open` holds the words that may stand for flags that nobody sees."""

    arguments: dict[str, Argument] = field(default_factory=dict)
    model: Field | None = None
    open: list[Field] = field(default_factory=list)

    def put(self, argument: Argument) -> None:
        """Keep an argument; the last one of a name counts. A controller's template in it has no value yet."""
        if isinstance(argument.value, str) and _TEMPLATE.fullmatch(argument.value) and not argument.unknown:
            argument = replace(argument, unknown=(argument.value,))
        self.arguments.pop(argument.name, None)
        self.arguments[argument.name] = argument


def read_argv(words: Sequence[Field], table: Table, *, takes_model: bool) -> Parsed:
    """Read the words after the program. `takes_model`: the first word that is no flag is the model."""
    return _Reader(list(words), table, takes_model=takes_model).read()


class _Reader:
    """One pass over the words."""

    def __init__(self, words: list[Field], table: Table, *, takes_model: bool) -> None:
        self.words = words
        self.table = table
        self.takes_model = takes_model
        self.position = 0
        self.parsed = Parsed()

    def read(self) -> Parsed:
        """Read all words."""
        while self.position < len(self.words):
            word = self.words[self.position]
            self.position += 1
            if word.text.startswith("-") and len(word.text) > 1 and not _NEGATIVE_NUMBER.fullmatch(word.text):
                self._flag(word)
            elif self._is_model(word):
                self.parsed.model = word
            elif word.open:
                self.parsed.open.append(word)
        return self.parsed

    def _is_model(self, word: Field) -> bool:
        """Say whether a word that is no flag is the model; `$@` is never one word."""
        several = word.open and word.text.strip('"') in ("$@", "$*", "${@}")
        return self.takes_model and self.parsed.model is None and not several

    def _flag(self, word: Field) -> None:
        written, equals, inline = word.text.partition("=")
        if found := _LEVEL.fullmatch(word.text):
            level = found[1] or self._next_text()
            self.parsed.put(Argument("optimization_level", typed(level), "-O", word.place))
            return
        flag = self.table.find(written)
        if flag is not None:
            given = Field(inline, word.place, word.unknown) if equals else None
            self._put(flag, written, given, word)
        elif "." in written and (base := self.table.find(written.split(".")[0])) is not None and base.type == "json":
            self._dotted(base, written, Field(inline, word.place, word.unknown) if equals else self._next(), word)
        else:
            self._unknown(written, Field(inline, word.place, word.unknown) if equals else None, word)

    def _put(self, flag: Flag, written: str, inline: Field | None, word: Field) -> None:
        if flag.words == 0:
            value = value_of(inline.text, "bool") if inline is not None else flag.on
            value = not value if inline is not None and not flag.on and isinstance(value, bool) else value
            unknown = inline.unknown if inline is not None else ()
        elif flag.words in ("+", "*"):
            several = [inline] if inline is not None else self._several()
            value = [value_of(each.text, flag.type) for each in several]
            value = value[0] if len(value) == 1 and flag.type == "str" else value
            unknown = tuple(name for each in several for name in each.unknown)
        else:
            one = inline if inline is not None else self._next(optional=flag.words == "?")
            value = value_of(one.text, flag.type) if one is not None else True
            unknown = one.unknown if one is not None else ()
            if one is not None and flag.dest in MODEL_NAMES:
                self.parsed.model = self.parsed.model or one
                return
        self.parsed.put(Argument(flag.name, value, written, word.place, unknown=unknown))

    def _dotted(self, base: Flag, written: str, value: Field | None, word: Field) -> None:
        """Put `--name.key.key value` into the JSON of `--name`; `key+` appends words between commas to a list."""
        if value is None:
            return
        keys = written.removesuffix("+").split(".")[1 : _MAX_DOTS + 1]
        content: Any = value.text.split(",") if written.endswith("+") else value_of(value.text, "unknown")
        before = self.parsed.arguments.get(base.name)
        merged = before.value if before is not None and isinstance(before.value, Mapping) else {}
        for key in reversed(keys):
            content = {key: content}
        self.parsed.put(Argument(base.name, laid_over(merged, content), written, word.place, unknown=value.unknown))

    def _unknown(self, written: str, inline: Field | None, word: Field) -> None:
        """Keep a flag of another release: whether it takes a value shows in its name and in what follows."""
        name = written.lstrip("-")
        if not name or not written.startswith("--"):
            return
        value = inline
        if value is None and self.position < len(self.words) and not self.words[self.position].text.startswith("-"):
            following = self.words[self.position].text.lower()
            if not name.replace("_", "-").startswith(_SWITCHES) or following in ("true", "false"):
                value = self._next()
        key = name.partition(".")[0].replace("-", "_")
        if key in MODEL_NAMES and value is not None:
            self.parsed.model = self.parsed.model or value
            return
        content = value_of(value.text, "unknown") if value is not None else True
        unknown = value.unknown if value is not None else ()
        self.parsed.put(Argument(key, content, written, word.place, known=False, unknown=unknown))

    def _next(self, *, optional: bool = False) -> Field | None:
        """Take the next word as a value, None where there is none or a flag follows."""
        if self.position >= len(self.words):
            return None
        word = self.words[self.position]
        if word.text.startswith("--") or (optional and word.text.startswith("-")):
            return None
        self.position += 1
        return word

    def _next_text(self) -> str:
        word = self._next()
        return word.text if word is not None else ""

    def _several(self) -> list[Field]:
        found = []
        while (word := self._next(optional=True)) is not None:
            found.append(word)
        return found


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with another laid over it, key by key; lists of both are joined."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            result[key] = laid_over(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            result[key] = [*old, *value]
        else:
            result[key] = value
    return result
