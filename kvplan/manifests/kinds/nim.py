"""NVIDIA NIM: the image names the model, a profile inside it picks the engine. Only the topology can be told."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.manifests.argv import Argument, Parsed
from kvplan.manifests.assemble import assemble, ignored_by
from kvplan.manifests.container import Start, environment
from kvplan.manifests.deployment import Deployment
from kvplan.manifests.kinds import reads
from kvplan.manifests.manifest import Manifest, label_of
from kvplan.manifests.pods import gpus_of
from kvplan.manifests.programs import Program
from kvplan.manifests.tree import Map, Node, at, entries, items, number, scalar, text
from kvplan.manifests.variables import Field, Scope

_IMAGE = re.compile(r".*/nim/([a-z0-9_.-]+/[a-z0-9_.-]+)", re.ASCII)
_SIZES = {"tensor": "tensor_parallel_size", "pipeline": "pipeline_parallel_size"}
_VARIABLES = {
    "NIM_TENSOR_PARALLEL_SIZE": "tensor_parallel_size",
    "NIM_PIPELINE_PARALLEL_SIZE": "pipeline_parallel_size",
    "NIM_MAX_MODEL_LEN": "max_model_len",
    "NIM_MAX_BATCH_SIZE": "max_num_seqs",
}
_MODEL = "NIM_MODEL_NAME"


@reads("NIMService")
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read a service of the NIM operator."""
    spec = at(root, "spec")
    repository = scalar(spec, "image", "repository")
    if not isinstance(spec, Map) or repository is None:
        return
    scope = manifest.scope.over(environment(spec, manifest, manifest.scope))
    topology = gpus_of(spec, spec, manifest, scope)
    sizes = dict(_stated(spec, scope))
    stages = sizes["pipeline_parallel_size"].value if "pipeline_parallel_size" in sizes else 1
    nodes = number(spec, "multiNode", "size") or (stages if at(spec, "multiNode") is not None else 1)
    found = _IMAGE.fullmatch(repository.text)
    named = scope.lookup(_MODEL)
    model = found[1] if found is not None else repository.text
    yield assemble(
        manifest,
        Start(Program("nim", pure=False), Parsed(), spec.place),
        type(topology)(topology.gpus, topology.gpus_place, nodes, topology.gpu, number(spec, "replicas")),
        kind="nim/NIMService",
        where=label_of(root),
        model=Field(named.text if named is not None else model, repository.place),
        source=None if named is not None else "nim image",
        below=sizes.values(),
        partial=True,
        ignored=ignored_by(root),
    )


def _stated(spec: Map, scope: Scope) -> Iterator[tuple[str, Argument]]:
    for entry in items(spec, "env"):
        name = text(entry, "name") or ""
        known = scope.lookup(name)
        if name in _VARIABLES and known is not None and known.text.isascii() and known.text.isdigit():
            yield _VARIABLES[name], Argument(_VARIABLES[name], int(known.text[:12]), name, entry.place)
    for key, value in entries(spec, "multiNode", "parallelism"):
        size: Node = value
        if key in _SIZES and number(size) is not None:
            yield _SIZES[key], Argument(_SIZES[key], number(size), key, size.place)
