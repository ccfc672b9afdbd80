"""Arguments that are written as the keys of a mapping: config files, chart values, `engine_kwargs`."""

from __future__ import annotations

import re
from typing import Any

from kvplan.manifests.argv import Argument
from kvplan.manifests.flags import SHARED_NAMES, json_of, table, value_of
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.tree import BadYaml, Map, Node, Scalar, entries, plain_value
from kvplan.manifests.variables import Scope


def arguments_of(
    node: Map | None, engine: str, manifest: Manifest, scope: Scope | None = None, *, skip: frozenset[str] = frozenset()
) -> list[Argument]:
    """Return the keys of a mapping as arguments: `max-model-len`, `max_model_len` and `maxModelLen` are one."""
    found = []
    known = table(engine)
    for key, value in entries(node):
        if key in skip or not isinstance(node, Map):
            continue
        name = _snake(key)
        flag = known.by_key(name) if known is not None else None
        place = node.keys[key].place if key in node.keys else value.place
        content, unknown = _content(value, flag.type if flag is not None else "unknown", manifest, scope)
        if flag is not None and not flag.on and isinstance(content, bool):
            content = not content
        if content is not None:
            reported = flag.name if flag is not None else SHARED_NAMES.get(name, name)
            found.append(Argument(reported, content, key, place, known=flag is not None, unknown=unknown))
    return found


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda m: "_" + m[1], key).lower().replace("-", "_")


def _content(value: Node, kind: str, manifest: Manifest, scope: Scope | None) -> tuple[Any, tuple[str, ...]]:
    if not isinstance(value, Scalar):
        try:
            return plain_value(value), ()
        except BadYaml:
            return None, ()
    word = manifest.word(value, scope)
    if word is None:
        return None, ()
    kind = kind if kind != "unknown" or value.plain else "str"
    return (json_of(word.text) if value.text[:1] == "{" else value_of(word.text, kind)), word.unknown
