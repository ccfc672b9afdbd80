"""LeaderWorkerSet: a group of `size` pods runs one copy; its leader, or every pod, starts the engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.manifests.deployment import Deployment
from kvplan.manifests.kinds import reads
from kvplan.manifests.kinds.workloads import deployments_at, sites
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.tree import Map, at, number
from kvplan.manifests.variables import Known, Layer


@reads("LeaderWorkerSet")
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read the engine of the leader; where the leader starts none, that of the workers."""
    template = at(root, "spec", "leaderWorkerTemplate")
    size = number(template, "size") or 1
    replicas = number(root, "spec", "replicas")
    # what the controller puts into every container; an address and an index are not known before the pods are
    given: Layer = {"LWS_GROUP_SIZE": Known.of(str(size)), "LWS_LEADER_ADDRESS": None, "LWS_WORKER_INDEX": None}
    found: dict[str, list[Deployment]] = {"leaderTemplate": [], "workerTemplate": []}
    for site in sites(root):
        side = next((key for key in site.path if key in found), "workerTemplate")
        found[side] += deployments_at(site, root, manifest, kind="LeaderWorkerSet", given=given, nodes=size)
    for deployment in found["leaderTemplate"] or found["workerTemplate"]:
        yield replace(deployment, topology=replace(deployment.topology, nodes=size, replicas=replicas))
