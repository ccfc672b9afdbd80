"""docker compose: services by image, entrypoint and command; `${VAR:-x}` is compose's own, `$$` is the container's."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.manifests.assemble import assemble, role_in_name
from kvplan.manifests.container import guess, start_of
from kvplan.manifests.deployment import Deployment, Topology
from kvplan.manifests.docker import count_of
from kvplan.manifests.kinds import reads_shape
from kvplan.manifests.launch import Launch
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.mounts import options_of
from kvplan.manifests.pieces import pieces_of
from kvplan.manifests.programs import image_program
from kvplan.manifests.shell import Word, tokens
from kvplan.manifests.tree import List, Map, Node, Scalar, at, entries, items, number, text
from kvplan.manifests.variables import Field, Known, Layer, Scope, expand, one_word


def _is_compose(root: Map, _: Manifest) -> bool:
    services = entries(root, "services")
    marks = ("image", "build", "command", "entrypoint")
    return any(at(service, mark) is not None for _, service in services for mark in marks)


@reads_shape(_is_compose)
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read every service that starts an engine."""
    for name, service in entries(root, "services"):
        if isinstance(service, Map):
            yield from _service(name, service, manifest)


def _service(name: str, service: Map, manifest: Manifest) -> Iterator[Deployment]:
    inner = manifest.scope.over(_environment(service, manifest))
    image_word = _interpolated(at(service, "image"), inner)
    image = image_word.text if image_word is not None else None
    entrypoint = _words(at(service, "entrypoint"), manifest, inner)
    command = _words(at(service, "command"), manifest, inner)
    words = (*entrypoint, *command)
    found = [start_of(launch, image, inner) for launch in manifest.finder.in_words(words, inner)]
    if not found and not entrypoint and words:
        program = image_program(image) or guess(words, image)
        if program is not None:
            found = [start_of(Launch(program, words, words[0].place), image, inner)]
    for start in found[-1:]:
        yield assemble(
            manifest,
            start,
            Topology(_gpus(service, manifest, inner), replicas=number(service, "deploy", "replicas")),
            kind="docker-compose",
            where=f"services/{name}",
            role=role_in_name(name),
            options=options_of(start.parsed, start.program.engine, manifest),
        )


def _interpolated(node: Node | None, scope: Scope) -> Field | None:
    """Return a scalar with compose's variables filled in; `$$` becomes `$`."""
    if not isinstance(node, Scalar) or node.is_null:
        return None
    parts = [one_word(pieces_of(part), node.place, scope, raw=part) for part in node.text.split("$$")]
    if len(parts) == 1:
        return parts[0]
    return Field("$".join(part.text for part in parts), node.place, tuple(n for part in parts for n in part.unknown))


def _words(node: Node | None, manifest: Manifest, scope: Scope) -> tuple[Field, ...]:
    """Return a command: a list word by word, a text as compose splits it."""
    if isinstance(node, List):
        found = (_interpolated(item, scope) for item in node.items)
        return tuple(word for word in found if word is not None)
    if not isinstance(node, Scalar) or node.is_null:
        return ()
    # `$$` is hidden while the text is split, so that the container's variables stay as they are
    hidden = node.text.replace("$$", "\ue000")
    split = tokens(hidden, manifest.lines.within(node.place, hidden))
    words = [f for token in split if isinstance(token, Word) for f in expand(token, scope)[0]]
    return tuple(Field(w.text.replace("\ue000", "$"), w.place, w.unknown, w.open) for w in words)


def _environment(service: Map, manifest: Manifest) -> Layer:
    layer: dict[str, Known | None] = {}
    for entry in items(service, "environment"):
        name, equals, _ = (text(entry) or "").partition("=")
        word = _interpolated(entry, manifest.scope)
        layer[name] = Known.of(word.text.partition("=")[2], word.unknown) if equals and word is not None else None
    for name, value in entries(service, "environment"):
        word = _interpolated(value, manifest.scope)
        layer[name] = Known.of(word.text, word.unknown) if word is not None else None
    return layer


def _gpus(service: Map, manifest: Manifest, scope: Scope) -> int | None:
    """Return the GPUs that a service is given, None where it may take all that there are."""
    asked = items(service, "deploy", "resources", "reservations", "devices")
    for device in (*asked, *items(service, "gpus")):
        if listed := items(device, "device_ids"):
            named = [word for item in listed if (word := _interpolated(item, scope)) is not None]
            if any(word.unknown for word in named):
                return None
            return sum(len(word.text.split(",")) for word in named)  # "0,1" is two, whatever compose makes of it
        word = manifest.word(at(device, "count") or device, scope)
        if word is not None and word.text.isascii() and word.text.isdigit():
            return int(word.text)
    whole = _interpolated(at(service, "gpus"), scope)
    return count_of(whole.text) if whole is not None else None
