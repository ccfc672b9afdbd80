"""KVP001: the ranks need more GPUs than the deployment asks for."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.registry import Hit, check
from kvplan.manifests.deployment import Deployment

_SHORT = {
    "tensor_parallel_size": "TP",
    "pipeline_parallel_size": "PP",
    "data_parallel_size": "DP",
    "prefill_context_parallel_size": "PCP",
}
# Attention groups of these engines lie within the tensor-parallel ranks and take no GPUs of their own
_DP_WITHIN_TP = ("enable_dp_attention", "enable_attention_dp")


@check("KVP001", "tp-exceeds-gpus", Severity.ERROR, needs_plan=False)
def rule(case: Case) -> Iterator[Hit]:
    """The ranks need more GPUs than the deployment asks for.

    Tensor-parallel, pipeline-parallel and data-parallel ranks take a GPU each. Where the pods of one copy have fewer,
    the server waits for devices that never come, or stops with "not enough GPUs". The rule compares TP x PP x DP with
    the GPUs of a pod times the pods of one copy, and is silent where either side is not known.

    Bad: `--tensor-parallel-size 4` in a Deployment whose container has `nvidia.com/gpu: 1`.
    Good: the same with `nvidia.com/gpu: 4`.
    Fix: a smaller `--tensor-parallel-size`, or more GPUs.
    """
    found, nodes = case.deployment, case.deployment.topology.nodes
    sizes = _sizes(found)
    if case.gpus is None or nodes is None or sizes is None:
        return
    needed, there = prod(sizes.values()), case.gpus * nodes
    if needed <= there:
        return
    what = " x ".join(f"{_SHORT[name]} {size}" for name, size in sizes.items() if size > 1)
    pods = f"the deployment asks for {there}" if nodes == 1 else f"{nodes} pods of {case.gpus} have {there}"
    tp = sizes["tensor_parallel_size"]
    smaller = there * tp // needed
    fix = f"--tensor-parallel-size {smaller}, or {needed} GPUs" if smaller else f"{needed} GPUs"
    yield Hit(
        found.place_of(*(name for name in sizes if sizes[name] > 1)), f"{what} needs {needed} GPUs, but {pods}", fix
    )


def _sizes(found: Deployment) -> dict[str, int] | None:
    """Return the parallel sizes that take GPUs of the pods; None where one is not known."""
    sizes: dict[str, int] = {}
    for name in _SHORT:
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
