"""The ranks of a deployment that take a GPU each, beside the GPUs that its pods ask for."""

from __future__ import annotations

from math import prod

from kvplan.checks.case import Case
from kvplan.manifests.deployment import Deployment

SHORT = {
    "tensor_parallel_size": "TP",
    "pipeline_parallel_size": "PP",
    "data_parallel_size": "DP",
    "prefill_context_parallel_size": "PCP",
}
# Attention groups of these engines lie within the tensor-parallel ranks and take no GPUs of their own
_DP_WITHIN_TP = ("enable_dp_attention", "enable_attention_dp")


def sizes_of(found: Deployment) -> dict[str, int] | None:
    """Return the parallel sizes that take GPUs of the pods; None where one is not known."""
    sizes: dict[str, int] = {}
    for name in SHORT:
        value = found.value(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            return None
        sizes[name] = value
    if any(name in found.arguments for name in _DP_WITHIN_TP):
        sizes["data_parallel_size"] = 1
    if any(name in found.arguments for name in ("data_parallel_external_lb", "data_parallel_rank")):
        sizes["data_parallel_size"] = 1  # each pod is one rank, and other pods are the others
    local, nodes = found.value("data_parallel_size_local", 0), found.topology.nodes or 1
    if isinstance(local, int) and local > 0:
        sizes["data_parallel_size"] = min(sizes["data_parallel_size"], local * nodes)
    return sizes


def too_few(case: Case) -> int | None:
    """Return the GPUs that the pods of one copy ask for, where its ranks need more; None where they do, or may, do."""
    sizes, nodes = sizes_of(case.deployment), case.deployment.topology.nodes
    if case.gpus is None or nodes is None or sizes is None:
        return None
    there = case.gpus * nodes
    return there if there < prod(sizes.values()) else None
