"""NVIDIA Dynamo DynamoGraphDeployment: services with a main container, GPUs beside it, nodes under `multinode`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.manifests.assemble import assemble, ignored_by, role_in_name
from kvplan.manifests.container import environment, read_container, starts
from kvplan.manifests.deployment import Deployment
from kvplan.manifests.kinds import reads
from kvplan.manifests.manifest import Manifest, label_of
from kvplan.manifests.mounts import options_of
from kvplan.manifests.pods import card_of, gpus_of
from kvplan.manifests.tree import Map, Node, at, entries, items, number, text

_ENV = ("env", "envs")


@reads("DynamoGraphDeployment", "DynamoComponentDeployment")
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read the services that start an engine; the frontend starts none."""
    services = entries(root, "spec", "services")
    services += [(text(node, "name") or "", node) for node in items(root, "spec", "components")]
    for name, service in services or [(text(root, "spec", "serviceName") or "", at(root, "spec") or root)]:
        pod = at(service, "extraPodSpec") or at(service, "podTemplate", "spec")
        main = at(pod, "mainContainer") or next(iter(items(pod, "containers")), None)
        if isinstance(main, Map):
            yield from _service(root, name, service, pod, main, manifest)


def _service(
    root: Map, name: str, service: Node, pod: Node | None, main: Map, manifest: Manifest
) -> Iterator[Deployment]:
    container = read_container(main, manifest, given=environment(service, manifest, manifest.scope, keys=_ENV))
    for start in starts(container, manifest)[-1:]:
        topology = gpus_of(service, pod, manifest, container.scope)
        if topology.gpus is None:
            topology = gpus_of(main, pod, manifest, container.scope)
        found = assemble(
            manifest,
            start,
            replace(
                topology,
                nodes=number(service, "multinode", "nodeCount") or 1,
                replicas=number(service, "replicas"),
                gpu=topology.gpu or card_of(service),
            ),
            kind="dynamo/DynamoGraphDeployment",
            where=f"{label_of(root)}#{name}",
            options=options_of(start.parsed, start.program.engine, manifest, main, pod),
            ignored=ignored_by(root),
        )
        said = text(service, "subComponentType")
        yield replace(found, role=found.role or said or role_in_name(_words(name)))


def _words(name: str) -> str:
    """Return `VllmDecodeWorker` as `vllm-decode-worker`."""
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")
