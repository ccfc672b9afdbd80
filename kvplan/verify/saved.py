"""What a verification measured of a card, kept for later plans on this machine, and read back by `kvplan size`.

One small JSON file a card, in cards/ beside the other local observations; --no-local leaves it out.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvplan.errors import UnreadableInput, UsageError
from kvplan.hardware import Gpu
from kvplan.home import home
from kvplan.planner import Note
from kvplan.sources.whole import write_whole
from kvplan.units import gib

if TYPE_CHECKING:
    from kvplan.verify.run import Verification

MAX_FILE = 4096
_MOST = 1.1  # times the catalogue's total: drivers differ by less than one in a hundred
_FIGURES = ("memory_bytes", "context_bytes", "read_bandwidth", "copy_bandwidth")


def save_card(found: Verification) -> list[str]:
    """Keep the card's usable memory, context and bandwidths; returns what to tell. A rehearsal has nothing to keep."""
    gpu = found.plan.gpu
    if found.facts.rehearsal or gpu is None:
        return ["note: a rehearsal measures no card: nothing is saved"]
    result = found.results[0]
    context = next(line.measured for line in result.lines if line.name == "context")
    total = found.facts.memory.total
    data = {
        "gpu": gpu.name,
        "memory_bytes": total,
        "context_bytes": context,
        "read_bandwidth": round(result.read_bandwidth),
        "copy_bandwidth": round(result.copy_bandwidth),
        "saved": datetime.now(tz=UTC).date().isoformat(),
    }
    path = _path(gpu.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(data, indent=2) + "\n")
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}", "KVPLAN_HOME names another folder"
        ) from error
    return [f"saved for later plans: {gib(total, 2)} usable, {gib(context, 2)} of context"]


def observed_card(gpu: Gpu) -> tuple[Gpu, tuple[Note, ...]]:
    """Return a card with what was measured of it on this machine, and a note that says so; as it is without.

    What no such card measures is left out, with a note.
    """
    path = _path(gpu.name)
    if not path.is_file():
        return gpu, ()
    data = _read(path)
    memory, context = data["memory_bytes"], data["context_bytes"]
    if memory > gpu.memory_high * _MOST or context > memory // 2:
        told = f"what was saved of {gpu.label} is left out: {gib(memory, 2)}, {gib(context, 2)} of it for a context"
        return gpu, (Note("card_left_out", told, f"delete {path}"),)
    source = f"measured on this machine by verify, {data['saved']}"
    figures = f"{gib(data['memory_bytes'], 2)}, {gib(data['context_bytes'], 2)} of context"
    note = Note("card_observed", f"{gpu.label} is planned as {source}: {figures}", "--no-local leaves it out")
    measured = replace(
        gpu,
        memory_bytes=data["memory_bytes"],
        memory_low=data["memory_bytes"],
        memory_high=data["memory_bytes"],
        memory_basis="measured",
        memory_source=source,
        start_loss_bytes=data["context_bytes"],
        start_loss_low=data["context_bytes"],
        start_loss_high=data["context_bytes"],
        start_loss_source=source,
        bandwidth=data["read_bandwidth"],
        assumed_among=(),
    )
    return measured, (note,)


def _path(name: str) -> Path:
    return home() / "cards" / f"{name.replace('/', '-')}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data: Any = json.loads(file.read(MAX_FILE))
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path) from error
    if not isinstance(data, dict) or data.keys() != {"gpu", "saved", *_FIGURES}:
        raise _unreadable(path)
    if not all(type(data[name]) is int and 0 < data[name] < 2**50 for name in _FIGURES):
        raise _unreadable(path)
    if not isinstance(data["saved"], str) or len(data["saved"]) > 10:
        raise _unreadable(path)
    return data


def _unreadable(path: Path) -> UnreadableInput:
    return UnreadableInput(f"{path} is no measurement of a card", "delete it, or add --no-local")
