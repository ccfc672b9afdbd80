"""AIBrix StormService: roles (prefill, decode) with a pod each, a group of pods for one copy where it says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan.manifests.assemble import role_in_name
from kvplan.manifests.deployment import Deployment
from kvplan.manifests.kinds import reads
from kvplan.manifests.kinds.workloads import deployments_at, sites
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.tree import Map, Node, at, number, text


@reads("StormService", "RoleSet")
def read(root: Map, manifest: Manifest) -> Iterator[Deployment]:
    """Read the containers of each role."""
    for site in sites(root):
        role = next((node for node in reversed(site.around) if _is_role(node)), None)
        nodes = number(role, "podGroupSize") or 1
        for found in deployments_at(site, root, manifest, kind="aibrix/StormService", nodes=nodes):
            topology = replace(found.topology, nodes=max(nodes, found.topology.nodes or 1))
            said = role_in_name(text(role, "name")) or found.role
            yield replace(found, topology=replace(topology, replicas=number(role, "replicas")), role=said)


def _is_role(node: Node) -> bool:
    return isinstance(node, Map) and at(node, "template") is not None and text(node, "name") is not None
