"""Dockerfiles: the last stage's ENTRYPOINT and CMD, with the variables of ENV and ARG."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kvplan.manifests.assemble import assemble
from kvplan.manifests.container import guess, start_of
from kvplan.manifests.deployment import Deployment, Topology
from kvplan.manifests.launch import Launch
from kvplan.manifests.lines import Lines
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.mounts import options_of
from kvplan.manifests.pieces import pieces_of
from kvplan.manifests.programs import image_program
from kvplan.manifests.tree import Place
from kvplan.manifests.variables import Field, Known, Scope, one_word, resolve

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+(.*)", re.DOTALL)
_FROM = re.compile(r"(?:--\S+\s+)*(\S+)(?:\s+[Aa][Ss]\s+(\S+))?", re.ASCII)
_PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(\"(?:[^\"\\]|\\.)*\"|'[^']*'|\S*)", re.ASCII)
_HEREDOC = re.compile(r"<<-?[\"']?([A-Za-z_][A-Za-z0-9_]*)[\"']?")


@dataclass(slots=True)
class _Stage:
    """What one stage of the build leaves: its image, its variables, its entrypoint and command."""

    image: str = ""
    variables: dict[str, Known | None] = field(default_factory=dict)
    entrypoint: tuple[str, Place] | None = None
    command: tuple[str, Place] | None = None


def read_dockerfile(text: str, manifest: Manifest) -> Iterator[Deployment]:
    """Read the container that the image starts."""
    stage = _last_stage(text, manifest.scope)
    scope = manifest.scope.over(stage.variables)
    words = [*_words(stage.entrypoint, manifest.lines, scope), *_words(stage.command, manifest.lines, scope)]
    launches = manifest.finder.in_words(words, scope)
    found = [start_of(launch, stage.image) for launch in launches]
    if not found and words and stage.entrypoint is None:
        program = image_program(stage.image) or guess(words, stage.image)
        if program is not None:
            found = [start_of(Launch(program, tuple(words), words[0].place), stage.image)]
    for start in found[-1:]:
        yield assemble(
            manifest,
            start,
            Topology(),
            kind="dockerfile",
            where="ENTRYPOINT" if stage.entrypoint is not None else "CMD",
            options=options_of(start.parsed, start.program.engine, manifest),
        )


def _last_stage(text: str, scope: Scope) -> _Stage:
    stages: dict[str, _Stage] = {}
    stage = _Stage()
    shared: dict[str, Known | None] = {}  # ARG before the first FROM
    for name, rest, place in _instructions(text):
        match name:
            case "FROM":
                found = _FROM.match(rest)
                image = resolve(found[1], place, scope.over(shared)).text if found else ""
                base = stages.get(image)
                stage = replace(base, variables=dict(base.variables)) if base is not None else _Stage(image)
                if found and found[2]:
                    stages[found[2]] = stage
            case "ENV" | "ARG":
                target = stage.variables if stage.image else shared
                _assign(rest, place, scope, target)
            case "ENTRYPOINT":
                stage.entrypoint, stage.command = (rest, place), None
            case "CMD":
                stage.command = (rest, place)
    return stage


def _instructions(text: str) -> Iterator[tuple[str, str, Place]]:
    """Yield the instructions, continued lines joined, comments and here-documents left out."""
    until: list[str] = []  # the ends of here-documents that are still open
    joined, begin = "", 0
    for number, line in enumerate(text.split("\n"), start=1):
        if until:
            if line.strip() == until[0]:
                until.pop(0)
            continue
        if line.lstrip().startswith("#") or not line.strip():
            continue
        begin = begin or number
        joined += line.rstrip().removesuffix("\\") + "\n"
        if line.rstrip().endswith("\\"):
            continue
        found = _INSTRUCTION.match(joined)
        if found is not None:
            name = found[1].upper()
            yield name, found[2].strip(), Place(begin, 1)
            until = _HEREDOC.findall(found[2]) if name in ("RUN", "COPY") else []
        joined, begin = "", 0


def _assign(rest: str, place: Place, scope: Scope, target: dict[str, Known | None]) -> None:
    pairs = _PAIR.findall(rest)
    if not pairs:
        name, _, value = rest.partition(" ")
        pairs = [(name, value.strip())] if value else []
    for name, written in pairs:
        value = written[1:-1] if written[:1] in ("'", '"') and written[-1:] == written[:1] else written
        word = one_word(pieces_of(value), place, scope.over(target), raw=value)
        target[name] = Known.of(word.text, word.unknown)


def _words(instruction: tuple[str, Place] | None, lines: Lines, scope: Scope) -> list[Field]:
    """Return the words of an instruction: its JSON list, or a program for `sh -c`."""
    if instruction is None:
        return []
    written, place = instruction
    if written.startswith("["):
        try:
            listed = json.loads(written.replace("\n", " "))
        except (ValueError, RecursionError):
            listed = None
        if isinstance(listed, list) and all(isinstance(word, str) for word in listed):
            locate = lines.within(place, written)
            return [resolve(word, locate(0, word), scope) for word in listed]
    return [Field("sh", place), Field("-c", place), Field(written, place)]
