"""From an audit to a local observation: the measured lines in the ledger's own terms."""

from __future__ import annotations

from kvplan.audit.compare import Audit
from kvplan.errors import UsageError
from kvplan.observations import Observation
from kvplan.units import GIB

# What the activation peak and the graphs depend on beside the model
_SETTINGS = ("max_num_seqs", "max_num_batched_tokens", "dtype", "kv_cache_dtype")


def observe(found: Audit) -> Observation:
    """Return what a log measured, as lines of the ledger.

    Raises UsageError where it measured nothing that plans use, or what no such card holds. From 0.27 the
    engine prints weights and what torch does not hold together, and the peak with the graphs: what is predicted exactly
    of them is taken off.
    """
    log, plan = found.log, found.plan
    if plan.gpu is None:
        raise UsageError("an observation is of a card, and none is known", "add --gpu")
    lines = {line.name: line.bytes for line in plan.budget.lines}
    measured: dict[str, int] = {}
    load, consumed = log.get("load_gib"), log.get("consumed_gib")
    if load is not None and "weights" in lines:
        known = lines["weights"] + lines.get("lora", 0) + lines.get("draft_weights", 0)
        measured["post_load"] = round(load * GIB) - known
        measured["allocator"] = 0
    if consumed is not None and load is not None:
        measured["non_torch"] = round((consumed - load) * GIB) - lines.get("persistent", 0)
    elif (non_torch := log.get("non_torch_gib")) is not None:
        measured["non_torch"] = round(non_torch * GIB)
    estimate, peak = log.get("graphs_estimate_gib"), log.get("activation_gib")
    charged = lines.get("cuda_graphs", 0) > 0
    if charged and estimate is not None:
        measured["cuda_graphs"] = round(estimate * GIB)
    if peak is not None:
        beside = lines.get("encoder_cache", 0)
        if consumed is not None and charged:
            beside += measured.get("cuda_graphs", lines["cuda_graphs"])
        measured["activations"] = round(peak * GIB) - beside
    if not measured:
        raise UsageError("the log prints no line that a later plan could use", "a log to the end of the start-up does")
    settings = plan.engine_settings
    made = Observation(
        engine=plan.engine,
        release=plan.engine_version,
        model=plan.model.id,
        gpu=plan.gpu.name,
        tp=int(settings.get("tensor_parallel_size", 1)),
        pp=int(settings.get("pipeline_parallel_size", 1)),
        settings={name: settings[name] for name in _SETTINGS if name in settings},
        lines=measured,
        source="audit",
    )
    if (fault := made.fault(plan.gpu.memory_high)) is not None:
        raise UsageError(f"nothing is kept of the log: it gives {fault}", "is --gpu the card that it ran on?")
    return made
