"""vLLM production-stack: chart values (`servingEngineSpec`) and the VLLMRuntime resource, settings in camelCase."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.manifests.argv import Argument, Parsed, read_argv
from kvplan.manifests.assemble import assemble, ignored_by, role_in_name
from kvplan.manifests.container import Start, environment, words_of
from kvplan.manifests.deployment import Deployment, Topology
from kvplan.manifests.flags import table
from kvplan.manifests.kinds import reads, reads_shape
from kvplan.manifests.manifest import Manifest, label_of
from kvplan.manifests.pods import card_of
from kvplan.manifests.programs import Program
from kvplan.manifests.tree import Map, Node, at, items, number, scalar, text
from kvplan.manifests.values import arguments_of

_VLLM = Program("vllm", pure=False)
_CHARTS_OWN = frozenset({"v0", "v1", "extraArgs", "env"})
_RUNTIME_MODEL = frozenset({"modelURL", "enableLoRA", "hfTokenSecret", "hfTokenName", "toolCallParser", "enableTool"})


def _has_models(root: Map, _: Manifest) -> bool:
    return at(root, "servingEngineSpec", "modelSpec") is not None


@reads_shape(_has_models)
def read_values(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read every model of the chart's values."""
    for number_, spec in enumerate(items(root, "servingEngineSpec", "modelSpec")):
        if not isinstance(spec, Map) or scalar(spec, "modelURL") is None:
            continue
        repository, tag = text(spec, "repository") or "", text(spec, "tag") or ""
        config = at(spec, "vllmConfig")
        name = text(spec, "name") or ""
        gpus_node = scalar(spec, "requestGPU")
        yield assemble(
            manifest,
            Start(_VLLM, _extra(config, spec, manifest), spec.place, f"{repository}:{tag}"),
            Topology(
                number(spec, "requestGPU"),
                gpus_node.place if gpus_node is not None else None,
                nodes=_ray_nodes(spec),
                gpu=card_of(spec),
                replicas=1 if at(spec, "raySpec") is not None else number(spec, "replicaCount"),
            ),
            kind="helm/production-stack",
            where=f"servingEngineSpec.modelSpec[{number_}]/{name}",
            role=_role(spec, name),
            model=manifest.word(spec.values["modelURL"]),
            below=_arguments(config, manifest),
        )


@reads("VLLMRuntime")
def read_runtime(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read the resource that the chart's operator deploys."""
    spec = at(root, "spec")
    url = scalar(spec, "model", "modelURL")
    if not isinstance(spec, Map) or url is None:
        return
    deployment = at(spec, "deploymentConfig")
    gpus = scalar(deployment, "resources", "gpu") or scalar(spec, "resources", "gpu")
    image = at(deployment, "image") or at(spec, "image")
    model = at(spec, "model")
    config = at(spec, "vllmConfig")
    replicas = number(deployment, "replicas")
    yield assemble(
        manifest,
        Start(_VLLM, _extra(config, spec, manifest), spec.place, text(image, "name")),
        Topology(
            number(gpus),
            gpus.place if gpus is not None else None,
            replicas=replicas if replicas is not None else number(spec, "replicas"),
            gpu=card_of(spec),
        ),
        kind="production-stack/VLLMRuntime",
        where=label_of(root),
        role=role_in_name(text(root, "metadata", "name")),
        model=manifest.word(url),
        below=[
            *arguments_of(model if isinstance(model, Map) else None, "vllm", manifest, skip=_RUNTIME_MODEL),
            *_arguments(config, manifest),
        ],
        ignored=ignored_by(root),
    )


def _arguments(config: Node | None, manifest: Manifest) -> list[Argument]:
    return arguments_of(config if isinstance(config, Map) else None, "vllm", manifest, skip=_CHARTS_OWN)


def _extra(config: Node | None, spec: Map, manifest: Manifest) -> Parsed:
    """Read the list of flags that the chart appends."""
    known = table("vllm")
    assert known is not None, "the table of vllm is part of the package"
    scope = manifest.scope.over(environment(spec, manifest, manifest.scope))
    return read_argv(words_of(at(config, "extraArgs"), manifest, scope), known, takes_model=False)


def _ray_nodes(spec: Map) -> int:
    """Return the pods of one copy: with Ray the head, where it has GPUs, and `replicaCount` workers."""
    if at(spec, "raySpec") is None:
        return 1
    head = number(spec, "raySpec", "headNode", "requestGPU") or 0
    return (number(spec, "replicaCount") or 1) + (1 if head else 0)


def _role(spec: Map, name: str) -> str | None:
    kv_role = text(spec, "lmcacheConfig", "kvRole") or ""
    return {"kv_producer": "prefill", "kv_consumer": "decode"}.get(kv_role) or role_in_name(name)
