"""Files of options that a command names: a ConfigMap mounted into the container, or a file beside the manifest."""

from __future__ import annotations

from pathlib import PurePosixPath

from kvplan.manifests.argv import Argument, Parsed
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.tree import BadYaml, Map, Node, at, items, parse, text
from kvplan.manifests.values import arguments_of

_NAMING = ("config", "extra_llm_api_options", "extra_engine_args")


def options_of(
    parsed: Parsed, engine: str, manifest: Manifest, container: Node | None = None, pod: Node | None = None
) -> list[Argument]:
    """Return the options of the file that a command names, none where it names none that can be read."""
    argument = next((parsed.arguments[name] for name in _NAMING if name in parsed.arguments), None)
    if argument is None or not isinstance(argument.value, str) or argument.unknown:
        return []
    mounted = _mounted(argument.value, manifest, container, pod)
    if mounted is not None:
        root = manifest.nested(mounted)
        return arguments_of(root, engine, manifest) if isinstance(root, Map) else []
    content = manifest.named(argument.value)
    if content is None:
        return []
    try:
        roots = parse(content)
    except BadYaml:
        return []
    found = arguments_of(roots[0], engine, manifest) if roots and isinstance(roots[0], Map) else []
    # places in another file would mislead: what it says is said where it is named
    return [Argument(a.name, a.value, a.flag, argument.place, a.known, a.unknown) for a in found]


def _mounted(path: str, manifest: Manifest, container: Node | None, pod: Node | None) -> Node | None:
    """Return the entry of a ConfigMap that lies at a path of the container."""
    for mount in items(container, "volumeMounts"):
        folder = text(mount, "mountPath")
        if folder is None or not PurePosixPath(path).is_relative_to(folder):
            continue
        key = str(PurePosixPath(path).relative_to(folder))
        if key == ".":  # a single file, mounted by its subPath
            key = text(mount, "subPath") or PurePosixPath(path).name
        for volume in items(pod, "volumes"):
            if text(volume, "name") == text(mount, "name"):
                held = manifest.referred("ConfigMap", text(volume, "configMap", "name"))
                return at(held, "data", key)
    return None
