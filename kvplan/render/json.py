"""The JSON objects of the contract, schema 1: stable, versioned, described by `kvplan schema`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kvplan.planner import Note, Plan

SCHEMA = 1


def plan_object(plan: Plan) -> dict[str, Any]:
    """Return the object of `kvplan size --format json`."""
    model, gpu = plan.model, plan.gpu
    return {
        "schema": SCHEMA,
        "model": {
            "id": model.id,
            "revision": model.revision,
            "source": model.source,
            "architecture": model.architecture,
            "dtype": model.dtype,
            "max_position_embeddings": model.length.limit,
        },
        "engine": {
            "name": plan.engine,
            "version": plan.engine_version,
            "args": plan.engine_settings,
            "assumed": list(plan.assumed),
        },
        "gpu": None if gpu is None else {"name": gpu.name, "count": plan.gpu_count, "memory_bytes": gpu.memory_bytes},
        "budget": {
            "requested_bytes": plan.budget.requested_bytes,
            "kv_bytes": plan.budget.kv_bytes,
            "lines": [asdict(line) for line in plan.budget.lines],
        },
        "weights": {"bytes_per_rank": plan.weights_per_rank},
        "kv": asdict(plan.kv) | {"groups": [asdict(group) for group in plan.kv.groups]},
        "verdict": plan.verdict,
        "reasons": [_note(note) for note in plan.reasons],
        "warnings": [_note(note) for note in plan.warnings],
    }


def _note(note: Note) -> dict[str, str]:
    return {"code": note.code, "message": note.message, "hint": note.hint}
