"""The kinds of manifest: one file each, turning a document into deployments.

A reader is a function from the root of a document and its `Manifest`, registered under the `kind` of Kubernetes objects
or under a test of the document's shape. Adding a kind is adding one file here; it is found by name. An object of a kind
that none reads is walked for containers (`workloads.py`).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TypeAlias

from kvplan.manifests.deployment import Deployment
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.tree import Map, items, text

Reader: TypeAlias = Callable[[Map, Manifest], Iterable[Deployment]]
Shape: TypeAlias = Callable[[Map, Manifest], bool]
_BY_KIND: dict[str, Reader] = {}
_BY_SHAPE: list[tuple[Shape, Reader]] = []


def reads(*kinds: str) -> Callable[[Reader], Reader]:
    """Register a reader for objects of these kinds."""

    def register(reader: Reader) -> Reader:
        for kind in kinds:
            assert kind not in _BY_KIND, f"{kind} has two readers"
            _BY_KIND[kind] = reader
        return reader

    return register


def reads_shape(shape: Shape) -> Callable[[Reader], Reader]:
    """Register a reader for documents without a `kind` that have this shape."""

    def register(reader: Reader) -> Reader:
        _BY_SHAPE.append((shape, reader))
        return reader

    return register


def kinds() -> dict[str, Reader]:
    """Return all readers by kind."""
    if not _BY_KIND:
        for module in pkgutil.iter_modules(__path__):
            import_module(f"{__name__}.{module.name}")
    return _BY_KIND


def read_document(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Yield the deployments of one document."""
    known = kinds()
    kind = text(root, "kind")
    if kind == "List" and "apiVersion" in root.values:
        for item in items(root, "items"):
            if isinstance(item, Map):
                yield from read_document(item, manifest)
    elif kind is not None and "apiVersion" in root.values:
        yield from known.get(kind, known[""])(root, manifest)
    else:
        found = next((reader for shape, reader in _BY_SHAPE if shape(root, manifest)), known[""])
        yield from found(root, manifest)
