"""A YAML file document by document, so that a bad one does not hide the others.

Git's conflict markers and Helm's templates are told apart from plain mistakes: the first are an error wherever they are
met, the second want rendering first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from kvplan.manifests.tree import BadYaml, Node, Place, parse

MAX_DOCUMENTS = 3000  # a rendered umbrella chart has 600
_START = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_CONTENT = re.compile(r"^(?!---[ \t]*(?:#|\r?$))[^\S\n]*[^\s#%]", re.MULTILINE)
_CRD = re.compile(r"^kind: CustomResourceDefinition\b", re.MULTILINE)  # megabytes of schema, and never a deployment
_MARKER = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)


class Fault(StrEnum):
    """What is wrong with a piece of a file."""

    CONFLICT = "conflict"
    TEMPLATE = "template"
    SYNTAX = "syntax"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A piece of a file that cannot be read."""

    fault: Fault
    place: Place
    message: str


def conflict(text: str, first_line: int = 1) -> Trouble | None:
    """Return the first conflict marker of a text, or None."""
    found = _MARKER.search(text)
    if found is None:
        return None
    line = first_line + text.count("\n", 0, found.start())
    return Trouble(Fault.CONFLICT, Place(line, 1), "a conflict marker of git: the merge is not finished")


def documents(text: str) -> Iterator[Node | Trouble]:
    """Yield the root of each document of a YAML file, or what is wrong with it; of conflicts only the first."""
    conflicts = 0
    for number, (piece, first_line) in enumerate(_pieces(text)):
        if number == MAX_DOCUMENTS:
            yield Trouble(Fault.SYNTAX, Place(first_line, 1), f"holds more than {MAX_DOCUMENTS:,} documents")
            return
        if _CONTENT.search(piece) is None or _CRD.search(piece) is not None:
            continue
        trouble = conflict(piece, first_line)
        if trouble is not None:
            conflicts += 1
            if conflicts == 1:
                yield trouble
            continue
        try:
            yield from parse(piece, first_line)
        except BadYaml as error:
            yield _why(error, piece)


def _pieces(text: str) -> Iterator[tuple[str, int]]:
    """Cut at the lines that start a document; with each piece, its first line."""
    line, begin = 1, 0
    for found in _START.finditer(text):
        if found.start() > begin:
            yield text[begin : found.start()], line
            line += text.count("\n", begin, found.start())
            begin = found.start()
    yield text[begin:], line


def _why(error: BadYaml, piece: str) -> Trouble:
    if _TEMPLATE.search(piece) is not None:
        message = "a Helm template, which is no YAML yet: render it first, as in `helm template CHART | kvplan check -`"
        return Trouble(Fault.TEMPLATE, error.place, message)
    return Trouble(Fault.SYNTAX, error.place, f"not YAML: {error.message}")
