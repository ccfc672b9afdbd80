"""Any object with containers: Deployment, StatefulSet, Pod, Job, and every custom resource that nests a pod.

A container is a mapping with `command`, `args` or `image`, wherever it lies. A patch (a workload whose container names
no image) is read as far as it goes: the rest lies in the base.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kvplan.manifests.assemble import assemble, ignored_by, role_in_name
from kvplan.manifests.container import Container, read_container, starts
from kvplan.manifests.deployment import Deployment
from kvplan.manifests.kinds import reads
from kvplan.manifests.manifest import Manifest, kind_of, label_of
from kvplan.manifests.mounts import options_of
from kvplan.manifests.pods import gpus_of, pod_around
from kvplan.manifests.tree import List, Map, Node, entries, number, text
from kvplan.manifests.variables import Layer

_WORKLOADS = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "CronJob", "Pod"})
# Commands of these start no server: they look after one, or come before it
_ASIDE = frozenset({"livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "initContainers", "exec"})
_ROLE_LABELS = ("llm-d.ai/role", "role", "kvplan.dev/role")


@dataclass(frozen=True, slots=True)
class Site:
    """A container and the way to it: the mappings and lists around it, outermost first, and the keys between them."""

    node: Map
    around: tuple[Node, ...]
    path: tuple[str, ...]


def sites(root: Node) -> Iterator[Site]:
    """Yield what is written like a container, in the order of the file."""
    waiting: list[tuple[Node, tuple[Node, ...], tuple[str, ...]]] = [(root, (), ())]
    seen: set[int] = set()
    while waiting:
        node, around, path = waiting.pop()
        if id(node) in seen:
            continue  # an alias: what it stands for was met under its anchor
        seen.add(id(node))
        children: list[tuple[Node, tuple[Node, ...], tuple[str, ...]]] = []
        if isinstance(node, Map):
            if "command" in node.values or "args" in node.values:
                yield Site(node, around, path)
            children = [(child, (*around, node), (*path, key)) for key, child in entries(node) if key not in _ASIDE]
        elif isinstance(node, List):
            children = [(child, (*around, node), (*path, str(i))) for i, child in enumerate(node.items)]
        waiting += [child for child in reversed(children) if isinstance(child[0], Map | List)]


@reads("", *sorted(_WORKLOADS))
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read every container that starts an engine."""
    kind = kind_of(root)
    label = _label(root, kind)
    replicas = number(root, "spec", "replicas") if kind in _WORKLOADS else None
    for site in sites(root):
        for found in deployments_at(site, root, manifest, kind=label):
            topology = replace(found.topology, replicas=replicas)
            yield replace(found, topology=topology)


def deployments_at(
    site: Site, root: Map, manifest: Manifest, *, kind: str, given: Layer | None = None, nodes: int | None = 1
) -> Iterator[Deployment]:
    """Yield the deployments of one container; `nodes` is how many pods run one copy of the model."""
    container = read_container(site.node, manifest, given=given)
    found = starts(container, manifest)
    pod = pod_around(root, list(site.around))
    for start in found[-1:]:  # a program's branches and fallbacks are versions of one server: the last is taken
        topology = gpus_of(site.node, pod, manifest, container.scope)
        yield assemble(
            manifest,
            start,
            replace(topology, nodes=nodes),
            kind=kind,
            where=where(root, container, site),
            role=_role(root, site, container),
            options=options_of(start.parsed, start.program.engine, manifest, site.node, pod),
            partial=_is_patch(root, site.node),
            ignored=ignored_by(root),
        )


def where(root: Map, container: Container, site: Site) -> str:
    """Name a container: `Deployment/name#container`, or by its path where the document is no object."""
    if not kind_of(root):
        shown = "".join(f"[{key}]" if key.isdigit() else f".{key}" for key in site.path).lstrip(".")
        return f"{shown}/{container.name}" if container.name else shown or "container"
    return f"{label_of(root)}#{container.name or (site.path[-1] if site.path else '')}".removesuffix("#")


def _label(root: Map, kind: str) -> str:
    if not kind:
        return "yaml"
    group = (text(root, "apiVersion") or "").rpartition("/")[0]
    return f"k8s/{kind}" if kind in _WORKLOADS else f"{group.split('.')[0] or 'k8s'}/{kind}"


def _role(root: Map, site: Site, container: Container) -> str | None:
    """Return the role that labels, the names around the container, or the object's own name give it."""
    for node in reversed((root, *site.around)):
        said = next((v for key in _ROLE_LABELS if (v := text(node, "metadata", "labels", key))), None)
        if said in ("prefill", "decode"):
            return said
        if isinstance(node, Map) and (said := role_in_name(text(node, "name"))) is not None:
            return said
    return role_in_name(container.name, *site.path, text(root, "metadata", "name"))


def _is_patch(root: Map, container: Map) -> bool:
    """Say whether this is a strategic-merge patch: a workload whose container has no image."""
    return kind_of(root) in _WORKLOADS and "image" not in container.values
