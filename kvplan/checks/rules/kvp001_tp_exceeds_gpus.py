"""KVP001: the ranks need more GPUs than the deployment asks for."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.ranks import SHORT, sizes_of, too_few
from kvplan.checks.registry import Hit, check


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
    sizes = sizes_of(found)
    there = too_few(case)
    if there is None or sizes is None:
        return
    needed = prod(sizes.values())
    what = " x ".join(f"{SHORT[name]} {size}" for name, size in sizes.items() if size > 1)
    pods = f"the deployment asks for {there}" if nodes == 1 else f"{nodes} pods of {case.gpus} have {there}"
    tp = sizes["tensor_parallel_size"]
    smaller = there * tp // needed
    fix = f"--tensor-parallel-size {smaller}, or {needed} GPUs" if smaller else f"{needed} GPUs"
    yield Hit(
        found.place_of(*(name for name in sizes if sizes[name] > 1)), f"{what} needs {needed} GPUs, but {pods}", fix
    )
