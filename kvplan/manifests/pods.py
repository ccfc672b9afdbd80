"""What a pod asks for: GPUs by resource name or by claim, the card by node labels and instance types."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.manifests.deployment import Topology
from kvplan.manifests.manifest import Manifest
from kvplan.manifests.tree import Map, Node, Place, at, entries, items, number, text
from kvplan.manifests.variables import Scope

_GPU = re.compile(
    r"(?:[a-z0-9.-]+/)?(?:gpu|gpu\.shared|mig-[0-9a-z.]+|gaudi|gaudi2|gaudi3|xe|i915|tpu|neuron|neuroncore)", re.ASCII
)
# Label keys that name a card, before those that name a machine
_CARD_KEYS = (
    "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "gpu.nvidia.com/model", "gpu.nvidia.com/class",
    "amd.com/gpu.product-name", "karpenter.k8s.aws/instance-gpu-name", "k8s.amazonaws.com/accelerator",
    "doks.digitalocean.com/gpu-model", "accelerator", "gpu-type", "gpu",
)  # fmt: skip
_MACHINE_KEYS = (
    "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "eks.amazonaws.com/instance-type",
    "node.cluster.x-k8s.io/instance-type",
)  # fmt: skip
_ALL_GPUS = "All"  # DRA: every device of a node, however many those are


def gpus_of(container: Node | None, pod: Node | None, manifest: Manifest, scope: Scope) -> Topology:
    """Return the GPUs of a container, by its limits or its pod's claims, and the card that the pod's nodes have."""
    card = card_of(pod)
    for section in ("limits", "requests"):
        for key, value in entries(container, "resources", section):
            if not _GPU.fullmatch(key.lower()):
                continue
            word = manifest.word(value, scope)
            count = word.text.strip() if word is not None else ""
            known = int(count) if re.fullmatch(r"[0-9]{1,5}", count, re.ASCII) else None
            return Topology(known, value.place, gpu=card, unknown=word.unknown if word is not None else ())
    claimed = _claimed(container, pod, manifest)
    return Topology(claimed[0], claimed[1], gpu=card) if claimed is not None else Topology(gpu=card)


def _claimed(container: Node | None, pod: Node | None, manifest: Manifest) -> tuple[int, Place] | None:
    """Return the GPUs that a container claims by dynamic resource allocation, and where it says so."""
    wanted = {name for claim in items(container, "resources", "claims") if (name := text(claim, "name"))}
    total, place = 0, None
    for claim in items(pod, "resourceClaims"):
        if text(claim, "name") not in wanted:
            continue
        template = manifest.referred("ResourceClaimTemplate", text(claim, "resourceClaimTemplateName"))
        spec = at(template, "spec", "spec")
        if template is None:
            spec = at(manifest.referred("ResourceClaim", text(claim, "resourceClaimName")), "spec")
        for request in items(spec, "devices", "requests"):
            exactly = at(request, "exactly") or request
            if "gpu" not in (text(exactly, "deviceClassName") or "").lower():
                continue
            if text(exactly, "allocationMode") == _ALL_GPUS:
                return None
            total += number(exactly, "count") or 1
            place = claim.place
    return (total, place) if place is not None else None


def card_of(pod: Node | None) -> str | None:
    """Return the card that a pod's node selector or affinity asks for, as written; None where it names none."""
    labels = dict(_labels(pod))
    return next((labels[key] for key in (*_CARD_KEYS, *_MACHINE_KEYS) if key in labels), None)


def _labels(pod: Node | None) -> Iterator[tuple[str, str]]:
    terms = at(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for term in (*items(terms), *items(pod, "nodeSelectorTerms")):
        for expression in items(term, "matchExpressions"):
            key, values = text(expression, "key"), items(expression, "values")
            if key and text(expression, "operator") == "In" and len(values) == 1 and (value := text(values[0])):
                yield key, value
    for key, node in entries(pod, "nodeSelector"):
        if value := text(node):
            yield key, value


def pod_around(root: Map, path: list[Node]) -> Node | None:
    """Return the innermost mapping on the way to a container that holds `containers` or a node selector."""
    holders = [node for node in (root, *path) if isinstance(node, Map)]
    marks = ("containers", "nodeSelector", "affinity", "resourceClaims")
    return next((node for node in reversed(holders) if any(mark in node.values for mark in marks)), None)
