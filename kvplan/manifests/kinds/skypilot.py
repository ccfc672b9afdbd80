"""SkyPilot: a task's `run` program, with the cards and nodes of `resources` and `num_nodes`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.manifests.assemble import assemble
from kvplan.manifests.container import start_of
from kvplan.manifests.deployment import Deployment, Topology
from kvplan.manifests.kinds import reads_shape
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.mounts import options_of
from kvplan.manifests.tree import Map, Node, Place, Scalar, at, entries, items, number, scalar, text
from kvplan.manifests.variables import Known

_CARD = re.compile(r"([A-Za-z0-9._-]+?)(?::([0-9]{1,4}))?", re.ASCII)


def _is_task(root: Map, _: Manifest) -> bool:
    marks = ("resources", "num_nodes", "envs", "setup", "service", "workdir", "file_mounts")
    return isinstance(root.values.get("run"), Scalar) and any(mark in root.values for mark in marks)


@reads_shape(_is_task)
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read the engine that the program starts."""
    program = root.values["run"]
    if not isinstance(program, Scalar):
        return
    cards = list(_cards(at(root, "resources"), manifest))
    counts = {count for _, count, _ in cards}
    names = {name for name, _, _ in cards}
    gpus = counts.pop() if len(counts) == 1 else None
    nodes = number(root, "num_nodes") or 1
    layer: dict[str, Known | None] = {"SKYPILOT_NUM_NODES": Known.of(str(nodes)), "SKYPILOT_NODE_RANK": None}
    if gpus is not None:
        layer["SKYPILOT_NUM_GPUS_PER_NODE"] = Known.of(str(gpus))
    for section in ("envs", "secrets"):
        for name, value in entries(root, section):
            word = manifest.word(value)
            layer[name] = Known.of(word.text, word.unknown) if word is not None else None
    scope = manifest.scope.over(layer)
    locate = manifest.lines.within(program.place, program.text)
    image = (text(root, "resources", "image_id") or "").removeprefix("docker:")
    replicas = number(root, "service", "replicas")
    for launch in manifest.finder.in_program(program.text, scope, locate)[-1:]:
        start = start_of(launch, image or None)
        yield assemble(
            manifest,
            start,
            Topology(
                gpus,
                cards[0][2] if cards else None,
                nodes=nodes,
                gpu=names.pop() if len(names) == 1 else None,
                replicas=replicas
                if replicas is not None
                else number(root, "service", "replica_policy", "min_replicas") or None,
            ),
            kind="skypilot",
            where="run",
            options=options_of(start.parsed, start.program.engine, manifest),
        )


def _cards(resources: Node | None, manifest: Manifest) -> Iterator[tuple[str, int, Place]]:
    """Yield the alternatives, each a card, a count and a place: `H100:8`, `{H100: 8, A100: 8}`, `[L4, A10G:1]`."""
    for section in (resources, *items(resources, "any_of"), *items(resources, "ordered")):
        node = at(section, "accelerators")
        for key, value in entries(node):
            # `{H100:8}` without a blank is one key for YAML, and what SkyPilot's own examples write
            name, _, count = key.partition(":")
            yield name, number(value) or (int(count) if count.isascii() and count.isdigit() else 1), value.place
        for entry in (*items(node), *([node] if isinstance(node, Scalar) else [])):
            written = scalar(entry)
            word = manifest.word(written) if written is not None else None
            found = _CARD.fullmatch(word.text) if word is not None else None
            if found is not None:
                yield found[1], int(found[2] or 1), entry.place
