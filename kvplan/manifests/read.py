"""From paths to deployments: every file is read first, so that one may refer to an object of another."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from kvplan.errors import UnreadableInput
from kvplan.manifests.deployment import Deployment
from kvplan.manifests.dockerfile import read_dockerfile
from kvplan.manifests.document import Fault, Trouble, conflict, documents
from kvplan.manifests.files import Form, Found, decode, find, form_of, read_text
from kvplan.manifests.kinds import read_document
from kvplan.manifests.lines import Lines
from kvplan.manifests.manifest import Manifest, Objects
from kvplan.manifests.scripts import read_script
from kvplan.manifests.shell import MAX_PROGRAM
from kvplan.manifests.tree import Map, Node, Place, Scalar, repeated, walk
from kvplan.manifests.variables import Scope

# A file without any of these starts no engine that is known here; looking is cheaper than reading
_HINT = re.compile(
    r"llm|sgl|tensor|/nim/|NIMService|kaito|huggingfaceserver|dynamo|--model|mem[-_]frac|kv[-_]?cache|gpu[-_]memory"
    r"|max[-_]?(?:model[-_]?len|num[-_])|speculative[-_]|enforce[-_]eager|prefix[-_]caching",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A file, or a part of one, that cannot be read. `grave`: it makes the check fail."""

    file: str
    place: Place
    message: str
    grave: bool


@dataclass(slots=True)
class Reading:
    """What was found in all files, and how many those were; `texts` are those of the files that have deployments."""

    deployments: list[Deployment] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    files: int = 0


@dataclass(frozen=True, slots=True)
class _Read:
    """A file whose text hints at an engine, its YAML parsed."""

    found: Found
    text: str
    form: Form
    roots: tuple[Map, ...]


def read_paths(
    paths: Sequence[str],
    *,
    scope: Scope | None = None,
    stdin: Callable[[], bytes] = lambda: b"",
    stdin_name: str = "-",
    excluded: Callable[[str], bool] = lambda _: False,
) -> Reading:
    """Read files and folders, and stdin where a path is `-`; raises UnreadableInput for a path that is not there."""
    reading = Reading()
    read: list[_Read] = []
    objects = Objects()
    given = [path for path in paths if path != "-"]
    sources: Iterable[Found] = find(given, excluded=excluded) if given else ()
    if "-" in paths:
        _take(Found(Path(), stdin_name, named=True), lambda: decode(stdin()), reading, read, objects)
    for found in sources:
        _take(found, lambda path=found.path: read_text(path), reading, read, objects)  # type: ignore[misc]
    for file in read:
        _deployments(file, scope or Scope(), objects, reading)
    return reading


def _take(found: Found, text_of: Callable[[], str], reading: Reading, read: list[_Read], objects: Objects) -> None:
    """Read one file; keep it where it hints at an engine, and the objects in it that others may refer to."""
    reading.files += 1
    try:
        text = text_of()
    except UnreadableInput as error:
        reading.problems.append(Problem(found.name, _line_in(error.message), error.message, grave=found.named))
        return
    form = form_of(found.name, text)
    if form is not Form.YAML:
        if (trouble := conflict(text)) is not None:
            reading.problems.append(Problem(found.name, trouble.place, trouble.message, grave=True))
        elif len(text) > MAX_PROGRAM:
            reading.problems.append(Problem(found.name, Place(1, 1), "too long for a program", grave=found.named))
        elif _HINT.search(text):
            read.append(_Read(found, text, form, ()))
        return
    roots: list[Node] = []
    for piece in documents(text):
        if isinstance(piece, Trouble):
            grave = piece.fault is not Fault.TEMPLATE  # which is fine as it is, and only cannot be read yet
            reading.problems.append(Problem(found.name, piece.place, piece.message, grave=grave))
        else:
            roots.append(piece)
    objects.by_name |= Objects.of(roots).by_name
    if _HINT.search(text):
        read.append(_Read(found, text, form, tuple(root for root in roots if isinstance(root, Map))))


def _line_in(message: str) -> Place:
    found = re.search(r"in line (\d+)", message)
    return Place(int(found[1]) if found else 1, 1)


def _deployments(file: _Read, scope: Scope, objects: Objects, reading: Reading) -> None:
    manifest = Manifest(
        name=file.found.name,
        lines=Lines(file.text),
        documents=file.roots,
        scope=Scope(scope.below, dict(scope.own)),
        others=objects,
        named=_beside(file.found.path),
    )
    before = len(reading.deployments)
    if file.form is Form.SHELL:
        reading.deployments += read_script(file.text, manifest)
    elif file.form is Form.DOCKERFILE:
        reading.deployments += read_dockerfile(file.text, manifest)
    else:
        for root in file.roots:
            found = list(read_document(root, manifest))
            reading.deployments += _with_repeated(found, root)
            if not found:
                reading.problems += _lost(file.found.name, root)
    if len(reading.deployments) > before:
        reading.texts[file.found.name] = file.text


def _with_repeated(found: list[Deployment], root: Map) -> Iterator[Deployment]:
    """Give each key that a document has twice to the deployment with the nearest line, as only places tell."""
    keys = repeated(root)
    if not keys or not found:
        yield from found
        return
    owners = [min(found, key=lambda each: abs(each.place.line - key.place.line)) for key in keys]
    for each in found:
        own = tuple(key for key, owner in zip(keys, owners, strict=True) if owner is each)
        yield replace(each, repeated=own)


def _lost(file: str, root: Map) -> Iterator[Problem]:
    """Note the keys of a document without a deployment that hide an earlier value with a hint at an engine."""
    for each in repeated(root):
        if any(_HINT.search(node.text) for node in walk(each.lost) if isinstance(node, Scalar)):
            message = f"the key {each.key[:40]!r} is given twice, and hides what stands in line {each.first.line}"
            yield Problem(file, each.place, message, grave=False)


def _beside(path: Path) -> Callable[[str], str | None]:
    """Return a reader of files that a manifest names: relative ones, beside or below it, and none for stdin."""

    def named(written: str) -> str | None:
        relative = PurePosixPath(written)
        if path == Path() or relative.is_absolute() or ".." in relative.parts or len(written) > 400:
            return None
        try:
            target = Path(os.path.realpath(path.parent / relative))
            if not target.is_relative_to(os.path.realpath(path.parent)):
                return None
            return read_text(target)
        except (UnreadableInput, OSError, ValueError):
            return None

    return named
