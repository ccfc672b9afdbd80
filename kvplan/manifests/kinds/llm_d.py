"""llm-d modelservice chart values: `modelArtifacts` names the model, `decode` and `prefill` hold the containers."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.manifests.argv import Argument, Parsed, read_argv
from kvplan.manifests.assemble import assemble
from kvplan.manifests.container import Container, Start, read_container, starts
from kvplan.manifests.deployment import Deployment, Topology
from kvplan.manifests.flags import table
from kvplan.manifests.kinds import reads_shape
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.pods import card_of, gpus_of
from kvplan.manifests.programs import Program
from kvplan.manifests.tree import Map, Node, at, items, number, scalar, text

_SIZES = {
    "tensor": "tensor_parallel_size", "pipeline": "pipeline_parallel_size", "data": "data_parallel_size",
    "dataLocal": "data_parallel_size_local",
}  # fmt: skip
_BY_CHART = frozenset({"vllmServe", "imageDefault"})  # the chart itself gives these the model and the parallel sizes


def _is_modelservice(root: Map, _: Manifest) -> bool:
    return at(root, "modelArtifacts") is not None and any(at(root, role) is not None for role in ("decode", "prefill"))


@reads_shape(_is_modelservice)
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read the containers of both roles that start an engine."""
    for role in ("decode", "prefill"):
        part = at(root, role)
        if (text(part, "create") or "true").lower() == "false":
            continue
        for index, node in enumerate(items(part, "containers")):
            if isinstance(node, Map):
                yield from _container(root, part, node, f"{role}.containers[{index}]", role, manifest)


def _container(
    root: Map, part: Node | None, node: Map, path: str, role: str, manifest: Manifest
) -> Iterator[Deployment]:
    container = read_container(node, manifest)
    by_chart = text(node, "modelCommand") in _BY_CHART
    start = _start(container, manifest, by_chart=by_chart)
    if start is None:
        return
    model = scalar(root, "modelArtifacts", "name") or scalar(root, "modelArtifacts", "uri")
    sizes = list(_sizes(at(part, "parallelism"))) if by_chart else []
    stated = {size.name: size.value for size in sizes}
    topology = gpus_of(node, part, manifest, container.scope)
    # the chart asks for as many GPUs as a pod has ranks, and for as many pods as all ranks take
    local = stated.get("data_parallel_size_local") or 1
    ranks = stated.get("tensor_parallel_size", 1) * local if stated else None
    pods = max(1, stated.get("data_parallel_size", 1) // local)
    yield assemble(
        manifest,
        start,
        Topology(
            topology.gpus or ranks,
            topology.gpus_place,
            nodes=number(part, "parallelism", "workers") or pods,
            gpu=card_of(part) or text(root, "accelerator", "type"),
            replicas=number(part, "replicas"),
            unknown=topology.unknown,
        ),
        kind="helm/llm-d-modelservice",
        where=f"{path}/{container.name}",
        place=node.place,
        role=role,
        model=manifest.word(model) if model is not None else None,
        below=sizes,
    )


def _start(container: Container, manifest: Manifest, *, by_chart: bool) -> Start | None:
    if not by_chart:
        found = starts(container, manifest)
        return found[-1] if found else None
    known = table("vllm")
    assert known is not None, "the table of vllm is part of the package"
    parsed = read_argv(container.words, known, takes_model=False) if container.words else Parsed()
    return Start(Program("vllm", takes_model=True), parsed, container.node.place, container.image)


def _sizes(parallelism: Node | None) -> Iterator[Argument]:
    for key, name in _SIZES.items():
        size, node = number(parallelism, key), at(parallelism, key)
        if size is not None and node is not None:
            yield Argument(name, size, key, node.place)
