"""KServe LLMInferenceService: model, parallel sizes and containers, whose extra flags lie in VLLM_ADDITIONAL_ARGS."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.manifests.argv import Argument, Parsed, read_argv
from kvplan.manifests.assemble import assemble, ignored_by
from kvplan.manifests.container import Container, Start, read_container, split, starts
from kvplan.manifests.deployment import Deployment, Topology
from kvplan.manifests.flags import table
from kvplan.manifests.kinds import reads
from kvplan.manifests.manifest import Manifest, kind_of, label_of
from kvplan.manifests.mounts import options_of
from kvplan.manifests.pods import card_of, gpus_of
from kvplan.manifests.programs import Program
from kvplan.manifests.tree import Map, Node, Scalar, at, items, number, scalar, text

_EXTRA = "VLLM_ADDITIONAL_ARGS"
_SIZES = {
    "tensor": "tensor_parallel_size", "pipeline": "pipeline_parallel_size", "data": "data_parallel_size",
    "dataLocal": "data_parallel_size_local",
}  # fmt: skip


@reads("LLMInferenceService", "LLMInferenceServiceConfig")
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read the workload, and that of prefill where they are apart. Workers repeat their leader."""
    spec = at(root, "spec")
    prefill = at(spec, "prefill")
    parts = [(spec, "decode" if prefill is not None else None), (prefill, "prefill")]
    for part, role in parts:
        if not isinstance(part, Map):
            continue
        found = _main(at(part, "template"))
        if found is None and role != "prefill" and text(spec, "model", "uri") is None:
            continue
        yield _deployment(root, part, found, role, manifest)


def _main(template: Node | None) -> Map | None:
    """Return the container `main`, or the first."""
    containers = [node for node in items(template, "containers") if isinstance(node, Map)]
    return next((node for node in containers if text(node, "name") == "main"), containers[0] if containers else None)


def _deployment(root: Map, part: Map, node: Map | None, role: str | None, manifest: Manifest) -> Deployment:
    template = at(part, "template")
    container = read_container(node, manifest) if node is not None else None
    start = _start(container, part, manifest)
    sizes = list(_sizes(at(part, "parallelism")))
    by_name = {size.name: size.value for size in sizes}
    topology = Topology(gpu=card_of(template))
    if container is not None:
        topology = gpus_of(node, template, manifest, container.scope)
    uri, name = scalar(root, "spec", "model", "uri"), text(root, "spec", "model", "name")
    served = name if name is not None else None
    return assemble(
        manifest,
        start,
        Topology(
            topology.gpus,
            topology.gpus_place,
            nodes=_nodes(by_name, worker=at(part, "worker") is not None),
            gpu=topology.gpu,
            replicas=number(part, "replicas"),
            unknown=topology.unknown,
        ),
        kind=f"kserve/{kind_of(root)}",
        where=f"{label_of(root)}#{container.name if container is not None else 'main'}" + (f"/{role}" if role else ""),
        place=node.place if node is not None else part.place,
        role=role,
        model=manifest.word(uri) if uri is not None else None,
        served=served,
        below=sizes,
        options=options_of(start.parsed, start.program.engine, manifest, node, template),
        ignored=ignored_by(root),
    )


def _start(container: Container | None, part: Map, manifest: Manifest) -> Start:
    """Return the engine: the container's own command, else the runtime's vLLM with the flags that are added."""
    if container is None:
        return Start(Program("vllm", pure=False), Parsed(), part.place)
    own = starts(container, manifest)
    if own:
        return own[-1]
    known = table("vllm")
    assert known is not None, "the table of vllm is part of the package"
    extra = next((entry for entry in items(container.node, "env") if text(entry, "name") == _EXTRA), None)
    value = at(extra, "value")
    words = split(value, manifest, container.scope) if isinstance(value, Scalar) and not value.is_null else ()
    # a controller puts the container's arguments before the additional ones
    parsed = read_argv((*container.words, *words), known, takes_model=False)
    return Start(Program("vllm", pure=False), parsed, container.node.place, container.image)


def _sizes(parallelism: Node | None) -> Iterator[Argument]:
    for key, name in _SIZES.items():
        size, node = number(parallelism, key), at(parallelism, key)
        if size is not None and node is not None:
            yield Argument(name, size, key, node.place)
    expert = scalar(parallelism, "expert")
    if expert is not None and expert.text.lower() in ("true", "false"):
        yield Argument("enable_expert_parallel", expert.text.lower() == "true", "expert", expert.place)


def _nodes(sizes: dict[str, int], *, worker: bool) -> int:
    """Return the pods of one copy: data-parallel ranks over local ones, or pipeline stages; one without workers."""
    data, local = sizes.get("data_parallel_size"), sizes.get("data_parallel_size_local")
    if data and local:
        return max(1, data // local)
    return sizes.get("pipeline_parallel_size", 1) if worker else 1
