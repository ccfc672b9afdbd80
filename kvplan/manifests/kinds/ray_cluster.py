"""Ray clusters whose head runs the engine's command: RayCluster, RayJob, AIBrix's RayClusterFleet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.manifests.deployment import Deployment
from kvplan.manifests.kinds import reads
from kvplan.manifests.kinds.workloads import deployments_at, sites
from kvplan.manifests.manifest import Manifest, kind_of
from kvplan.manifests.pods import gpus_of
from kvplan.manifests.tree import Map, Node, at, items, number, walk

_FLEETS = frozenset({"RayClusterFleet", "RayClusterReplicaSet"})


@reads("RayCluster", "RayJob", *sorted(_FLEETS))
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read the engines of a cluster; its nodes are the head and the workers that have GPUs."""
    kind = kind_of(root)
    nodes, gpus = ray_nodes(ray_cluster(root), manifest)
    replicas = number(root, "spec", "replicas") if kind in _FLEETS else None
    for site in sites(root):
        for found in deployments_at(site, root, manifest, kind=f"{'aibrix' if kind in _FLEETS else 'ray'}/{kind}"):
            topology = replace(found.topology, nodes=nodes, gpus=found.topology.gpus or gpus, replicas=replicas)
            yield replace(found, topology=topology)


def ray_cluster(root: Node | None) -> Node | None:
    """Return the mapping that holds headGroupSpec, wherever an object keeps it."""
    return next((node for node in walk(root) if at(node, "headGroupSpec") is not None), None)


def ray_nodes(cluster: Node | None, manifest: Manifest) -> tuple[int, int | None]:
    """Return how many pods of a cluster have GPUs (1 where none says so), and the GPUs of such a pod."""
    count, gpus = 0, None
    groups: list[tuple[Node | None, int]] = [(at(cluster, "headGroupSpec"), 1)]
    for workers in items(cluster, "workerGroupSpecs"):
        stated = number(workers, "replicas")
        groups.append((workers, stated if stated is not None else number(workers, "minReplicas") or 1))
    for group, replicas in groups:
        for container in items(group, "template", "spec", "containers"):
            asked = gpus_of(container, at(group, "template", "spec"), manifest, manifest.scope).gpus
            if asked:
                count += replicas
                gpus = gpus or asked
    return max(count, 1), gpus
