"""`--explain` on weights: what each role takes of one GPU, and what the checkpoint's files hold beside it."""

from __future__ import annotations

from collections import Counter

from kvplan.errors import HubUnreachable
from kvplan.model.weights import Ranks, inventory, is_computed, weigh
from kvplan.model.weights.schemes.scheme import HOPPER
from kvplan.model.weights.tensors import Role
from kvplan.planner import Plan
from kvplan.stored import stored_headers
from kvplan.units import GB, quantity

_SAID = {
    Role.VOCABULARY: "embedding and output head, split by rows",
    Role.COLUMN: "split by outputs",
    Role.KV: "keys and values, split by KV heads",
    Role.ROW: "split by inputs",
    Role.EXPERT: "experts",
    Role.REPLICATED: "whole on every GPU: norms, routers, small projections",
    Role.TOWER: "encoders, whole on every GPU",
    Role.TABLE: "computed by the engine: rope tables, masks, scales",
    Role.MAP: "which GPU has which expert",
}


def explain_weights(plan: Plan) -> list[str]:
    """Return the explanation: the ledger's line, its parts by role, and the files' total where they are at hand."""
    line = next((line for line in plan.budget.lines if line.name == "weights"), None)
    if line is None:
        return []
    lines = ["", f"how the weights come about: {_gb(line.bytes)} on one GPU ({line.why})"]
    if line.basis != "given":
        lines += [f"  {_gb(size)}  {_SAID[role]}" for role, size in _roles(plan).most_common() if size]
    return [*lines, *_files(plan)]


def _roles(plan: Plan) -> Counter[Role]:
    settings, gpu = plan.engine_settings, plan.gpu
    ranks = Ranks(
        tensor=int(settings.get("tensor_parallel_size") or settings.get("tp_size") or 1),
        data=int(settings.get("data_parallel_size") or 1),
        expert_parallel=bool(settings.get("enable_expert_parallel")),
        stages=_stages(plan),
    )
    dtype, asked = str(settings.get("dtype") or plan.model.dtype), settings.get("quantization")
    capability = gpu.compute_capability if gpu is not None else None
    return weigh(plan.model, ranks, dtype=dtype, asked=asked, capability=capability or HOPPER).roles


def _stages(plan: Plan) -> tuple[range, ...]:
    from kvplan.engine.vllm.capacity import partition  # noqa: PLC0415  # most plans have one stage

    stages = int(plan.engine_settings.get("pipeline_parallel_size") or plan.engine_settings.get("pp_size") or 1)
    return tuple(partition(len(plan.model.shape.layers), stages))


def _files(plan: Plan) -> list[str]:
    """Return what the checkpoint's files hold, against what the config says that they do."""
    tensors, dtype = inventory(plan.model) if is_computed(plan.model) else None, _dtype(plan)
    implied = sum(tensor.stored_bytes(dtype) for tensor in tensors or () if tensor.holder != "engine")
    lines = [f"  the config implies {_gb(implied)} of tensors in the checkpoint"] if implied else []
    try:
        headers = stored_headers(plan.model)
    except HubUnreachable as error:
        return [*lines, f"  the headers of its files were not read: {error.message}"]
    if headers is None:
        return lines
    told = f"  its {headers.files} files hold {_gb(headers.total_bytes)}"
    if not implied or headers.total_bytes == implied:
        return [*lines, told]
    difference = headers.total_bytes - implied
    return [*lines, f"{told}, {_gb(abs(difference))} {'more' if difference > 0 else 'less'}"]


def _dtype(plan: Plan) -> str:
    """Return the dtype of the files: the config's, or the engine's where the config names none (gpt-oss)."""
    config = plan.model.config
    sections = (config, *(value for value in config.values() if isinstance(value, dict)))
    named = any(section.get("dtype") or section.get("torch_dtype") for section in sections)
    return plan.model.dtype if named else str(plan.engine_settings.get("dtype") or plan.model.dtype)


def _gb(size: int) -> str:
    return f"{quantity(size / GB, 2)} GB"
