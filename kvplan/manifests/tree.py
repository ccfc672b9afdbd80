"""YAML as a tree of located values, built from the parser's events.

Events, not nodes, so that depth and size are bounded while the text is read: a tree of a hostile file is never built.
An alias shares the finished value of its anchor, and inside its own anchor it is an error, so the tree has no cycles.
Scalars stay text: whoever knows the flag gives it a type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import yaml

MAX_DEPTH = 60  # the deepest public manifest nests 20 levels
MAX_VALUES = 300_000  # a rendered chart of 4 MiB has 150,000
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18}|[0-9]{1,18}(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?", re.ASCII
)
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


class Place(NamedTuple):
    """A position in a file, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A text, where it starts, and how it is written: `style` is empty, a quote, `|` or `>`."""

    text: str
    place: Place
    style: str = ""

    @property
    def plain(self) -> bool:
        """Whether it is neither quoted nor a block, so that a word such as `true` may be more than text."""
        return not self.style

    @property
    def is_null(self) -> bool:
        """Whether it stands for no value."""
        return self.plain and self.text.lower() in ("", "~", "null")


@dataclass(frozen=True, slots=True, eq=False)
class List:
    """A list."""

    items: tuple[Node, ...]
    place: Place


class Repeated(NamedTuple):
    """A key that its mapping already has, where that stands, and the value that is lost: the last one counts."""

    key: str
    place: Place
    first: Place
    lost: Node


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """A mapping: values by the text of their key, the last of equal keys, `<<` merged below the own ones."""

    values: dict[str, Node]
    keys: dict[str, Scalar]
    place: Place
    repeated: tuple[Repeated, ...] = ()


Node: TypeAlias = Scalar | List | Map


class BadYaml(Exception):
    """A document that cannot be read, with the place where that shows."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.message = message
        self.place = place


@dataclass(slots=True)
class _Open:
    """A collection that is still being read."""

    is_mapping: bool
    place: Place
    anchor: str | None
    items: list[Node] = field(default_factory=list)


def parse(text: str, first_line: int = 1) -> list[Node]:
    """Return the roots of the documents in a text; raises BadYaml. Lines are counted from `first_line`."""
    builder = _Builder(first_line)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        found: Any = error  # the marks of the two parsers have no common type
        mark = found.problem_mark or found.context_mark
        place = Place(first_line, 1) if mark is None else Place(mark.line + first_line, mark.column + 1)
        raise BadYaml(error.problem or "not YAML", place) from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position] if isinstance(error.position, int) else ""
        raise BadYaml("a character that YAML does not allow", Place(first_line + before.count("\n"), 1)) from error
    return builder.roots


class _Builder:
    """Puts events together, innermost collection first."""

    __slots__ = ("_anchors", "_first_line", "_stack", "_values", "roots")

    def __init__(self, first_line: int) -> None:
        self.roots: list[Node] = []
        self._first_line = first_line
        self._anchors: dict[str, Node | None] = {}  # None: the anchor is still being read
        self._stack: list[_Open] = []
        self._values = 0

    def take(self, event: Any) -> None:
        """Take the next event of the parser."""
        match event:
            case yaml.ScalarEvent():
                self._finish(Scalar(event.value, self._place(event), event.style or ""), event.anchor)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._open(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                done = self._stack.pop()
                node = _mapping(done) if done.is_mapping else List(tuple(done.items), done.place)
                self._finish(node, done.anchor)
            case yaml.AliasEvent():
                self._finish(self._aliased(event), None)
            case yaml.DocumentEndEvent():
                self._anchors.clear()

    def _place(self, event: Any) -> Place:
        mark = event.start_mark
        return Place(mark.line + self._first_line, mark.column + 1)

    def _open(self, event: Any) -> None:
        place = self._place(event)
        if len(self._stack) >= MAX_DEPTH:
            raise BadYaml(f"nests more than {MAX_DEPTH} levels deep", place)
        self._stack.append(_Open(isinstance(event, yaml.MappingStartEvent), place, event.anchor))
        if event.anchor:
            self._anchors[event.anchor] = None

    def _aliased(self, event: Any) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            why = "is used inside itself" if event.anchor in self._anchors else "is not defined"
            raise BadYaml(f"the anchor {event.anchor[:40]!r} {why}", self._place(event))
        return node

    def _finish(self, node: Node, anchor: str | None) -> None:
        self._values += len(node.values) if isinstance(node, Map) else 1  # what a merge copied counts too
        if self._values > MAX_VALUES:
            raise BadYaml(f"holds more than {MAX_VALUES:,} values", node.place)
        if anchor:
            self._anchors[anchor] = node
        (self._stack[-1].items if self._stack else self.roots).append(node)


def _mapping(done: _Open) -> Map:
    """Pair keys with values; a key that is no scalar (`{{ x }}` unquoted is one) is left out."""
    own: dict[str, Node] = {}
    keys: dict[str, Scalar] = {}
    merged: list[Map] = []
    repeated: list[Repeated] = []
    for key, value in zip(done.items[::2], done.items[1::2], strict=True):
        if not isinstance(key, Scalar):
            continue
        if key.text == "<<" and key.plain:
            sources = value.items if isinstance(value, List) else (value,)
            merged += [source for source in sources if isinstance(source, Map)]
            continue
        if key.text in own:
            repeated.append(Repeated(key.text, key.place, keys[key.text].place, own[key.text]))
        own[key.text] = value
        keys[key.text] = key
    if not merged:
        return Map(own, keys, done.place, tuple(repeated))
    values: dict[str, Node] = {}
    for source in dict.fromkeys(reversed(merged)):  # the first source that has a key gives it: later ones lie under
        if len(values) + len(source.values) > MAX_VALUES:
            raise BadYaml(f"merges more than {MAX_VALUES:,} values", done.place)
        values |= source.values
        keys = source.keys | keys
    return Map(values | own, keys, done.place, tuple(repeated))


# -- reading a tree ----------------------------------------------------------------------------------------------------


def at(node: Node | None, *path: str | int) -> Node | None:
    """Return the value at a path of keys and positions, or None where there is none."""
    for step in path:
        if isinstance(step, str):
            node = node.values.get(step) if isinstance(node, Map) else None
        elif isinstance(node, List) and 0 <= step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node


def scalar(node: Node | None, *path: str | int) -> Scalar | None:
    """Return the scalar at a path; None where there is none, or null stands there."""
    found = at(node, *path)
    return found if isinstance(found, Scalar) and not found.is_null else None


def text(node: Node | None, *path: str | int) -> str | None:
    """Return the text at a path, as `scalar`."""
    found = scalar(node, *path)
    return found.text if found is not None else None


def number(node: Node | None, *path: str | int) -> int | None:
    """Return the whole number at a path, written plainly or quoted; None for anything else."""
    found = text(node, *path)
    return int(found) if found is not None and _INTEGER.fullmatch(found.strip()) else None


def items(node: Node | None, *path: str | int) -> tuple[Node, ...]:
    """Return the entries of the list at a path; none where it is no list."""
    found = at(node, *path)
    return found.items if isinstance(found, List) else ()


def entries(node: Node | None, *path: str | int) -> list[tuple[str, Node]]:
    """Return keys and values of the mapping at a path; none where it is no mapping."""
    found = at(node, *path)
    return list(found.values.items()) if isinstance(found, Map) else []


def walk(node: Node | None) -> Iterator[Node]:
    """Yield a value and all below it, outer ones first, each once however many aliases stand for it."""
    level = [node] if node is not None else []
    seen: set[int] = set()
    while level:
        inner: list[Node] = []
        for each in level:
            if id(each) not in seen:
                seen.add(id(each))
                yield each
                inner += each.items if isinstance(each, List) else each.values.values() if isinstance(each, Map) else ()
        level = inner


def repeated(node: Node) -> list[Repeated]:
    """Return the keys that stand in one mapping more than once, in the order of their lines."""
    found = (each for inner in walk(node) if isinstance(inner, Map) for each in inner.repeated)
    return sorted(found, key=lambda each: each.place)


def plain_value(node: Node, budget: list[int] | None = None) -> Any:
    """Return a value as Python has it, words typed as YAML 1.2 does; raises BadYaml above 20,000 values (aliases)."""
    left = budget if budget is not None else [20_000]
    left[0] -= 1
    if left[0] < 0:
        raise BadYaml("holds too many values", node.place)
    match node:
        case Scalar():
            return typed(node.text) if node.plain else node.text
        case List():
            return [plain_value(item, left) for item in node.items]
        case Map():
            return {key: plain_value(value, left) for key, value in node.values.items()}


def typed(word: str) -> Any:
    """Return what a plain word stands for: a number, a boolean, null, else the word."""
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if _INTEGER.fullmatch(word):
        return int(word)
    return float(word) if _FLOAT.fullmatch(word) else word
