"""Local observations: what an engine or a verification measured on a card of one's own, kept for later plans.

They lie in observations/ under the local data (kvplan/home.py says where), one JSON file each. `size` uses those
that fit and names them; `check`, `lock` and --locked never read them, nor does `kvplan.plan` unless it is asked to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvplan.errors import UnreadableInput, UsageError
from kvplan.home import home
from kvplan.ledger import Line
from kvplan.planner import Note
from kvplan.record import dataclass
from kvplan.sources.whole import write_whole
from kvplan.units import gib

if TYPE_CHECKING:
    from kvplan.engine.args import EngineArgs
    from kvplan.hardware import Gpu

MAX_FILE = 65_536  # bytes; an observation has about 600
MAX_FILES = 1_000
_MARGIN = 2**30 // 200  # half of the last digit that engines print
_ALL = "all"
_LINES = frozenset({"post_load", "allocator", "non_torch", "cuda_graphs", "activations"})
_LOADED = frozenset({"post_load"})  # what was loaded less the weights: where these are an estimate, it may be too high
_ROUNDED = 2**28  # bytes; a line is a difference of printed figures and of a predicted one


@dataclass(frozen=True, slots=True)
class Observation:
    """One start: `lines` are bytes by the ledger's names. `source` is `audit` or `verify`, `saved` a date.

    What the figures depend on: the card, the ranks, the release (major.minor) and, but for `non_torch`, the model and
    the settings.
    """

    engine: str
    release: str
    model: str
    gpu: str
    tp: int
    pp: int
    settings: Mapping[str, Any]
    lines: Mapping[str, int]
    source: str
    saved: str = ""

    @property
    def id(self) -> str:
        """A short name: the same start saved twice has the same one."""
        key = (self.engine, self.release, self.model, self.gpu, self.tp, self.pp, sorted(self.settings.items()))
        return hashlib.sha256(repr(key).encode()).hexdigest()[:8]

    def fault(self, memory: int) -> str | None:
        """Say what no card of so many bytes can have measured, None where there is nothing of the kind."""
        for name, size in self.lines.items():
            if name not in _LINES:
                return f"{name[:40]} is no line that a start measures"
            least = -memory // 8 if name in _LOADED else -_ROUNDED
            if not least <= size <= memory:
                return f"{_gib(size)} of {name}, where the card has {_gib(memory)}"
        if sum(self.lines.values()) > memory:
            return f"{_gib(sum(self.lines.values()))} in all, where the card has {_gib(memory)}"
        return None


def _gib(size: int) -> str:
    """Write a size of a file that anybody may have written, however long it is."""
    return gib(max(-(2**60), min(2**60, size)), 2)


def _folder() -> Path:
    return home() / "observations"


def save_observation(observation: Observation) -> Observation:
    """Write an observation, in the place of an earlier one of the same start; returns it with its date."""
    dated = Observation(**{f.name: getattr(observation, f.name) for f in fields(Observation) if f.name != "saved"},
                        saved=datetime.now(tz=UTC).date().isoformat())  # fmt: skip
    path = _folder() / f"{dated.id}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(asdict(dated), indent=2, default=dict) + "\n")
    except OSError as error:
        hint = "KVPLAN_HOME names another folder"
        raise UsageError(f"cannot write {path}: {error.strerror or error}", hint) from error
    return dated


def observations() -> list[Observation]:
    """Return all local observations, oldest first; raises UnreadableInput for a file that is none."""
    try:
        paths = sorted(_folder().glob("*.json"))[:MAX_FILES]
    except OSError as error:
        raise UnreadableInput(f"cannot read {_folder()}: {error.strerror or error}") from error
    return sorted((_read(path) for path in paths), key=lambda one: (one.saved, one.id))


def forget(name: str) -> int:
    """Delete the observation of this id, or `all`; returns how many there were. Raises UsageError for an unknown id."""
    found = [path for path in _folder().glob("*.json") if name in (path.stem, _ALL)]
    if not found and name != _ALL:
        raise UsageError(f"no local observation {name[:40]!r}", "`kvplan audit --list` shows them")
    for path in found:
        path.unlink()
    return len(found)


def observations_object(found: Sequence[Observation]) -> dict[str, Any]:
    """Return the object of `kvplan audit --list --format json`."""
    return {"schema": 1, "observations": [{"id": one.id, **asdict(one)} for one in found]}


def observed_lines(
    model: str, engine: str, release: str, gpu: Gpu, args: EngineArgs, settings: Mapping[str, Any]
) -> tuple[tuple[Line, ...], tuple[Note, ...]]:
    """Return the measured lines that a plan of these may use, the newest observation first to be asked.

    What torch does not hold depends on the card, the ranks and the release alone; the rest on the model and its
    settings too. An observation that no such card can have made is left out, which the notes say.
    """
    lines: dict[str, Line] = {}
    notes: list[Note] = []
    minor = _minor(release)
    for one in reversed(observations() if _folder().is_dir() else []):
        ranks = (one.tp, one.pp) == (args.tensor_parallel_size, args.pipeline_parallel_size)
        if (one.engine, _minor(one.release), one.gpu) != (engine, minor, gpu.name) or not ranks:
            continue
        if (fault := one.fault(gpu.memory_high)) is not None:
            told = f"the local observation {one.id} is left out: {fault}"
            notes.append(Note("observation_left_out", told, f"kvplan audit --forget {one.id}"))
            continue
        same = one.model.casefold() == model.casefold() and all(
            settings.get(name) == value for name, value in one.settings.items()
        )
        for name, size in one.lines.items():
            if (same or name == "non_torch") and name not in lines:
                why = f"observed on this card: {one.id} of {one.saved}"
                lines[name] = Line(name, size, size - _MARGIN, size + _MARGIN, "measured", why)
    return tuple(lines.values()), tuple(notes)


def _minor(release: str) -> str:
    return ".".join(release.split(".")[:2])


_TYPES: Mapping[str, type] = {
    "engine": str, "release": str, "model": str, "gpu": str, "tp": int, "pp": int, "settings": dict, "lines": dict,
    "source": str, "saved": str,
}  # fmt: skip


def _read(path: Path) -> Observation:
    try:
        with path.open("rb") as file:
            data: Any = json.loads(file.read(MAX_FILE))
    except (OSError, ValueError, RecursionError) as error:
        raise _no_observation(path) from error
    whole = isinstance(data, dict) and data.keys() == _TYPES.keys()
    if not whole or not all(type(data[name]) is kind for name, kind in _TYPES.items()):
        raise _no_observation(path)
    if not all(type(size) is int for size in data["lines"].values()):
        raise _no_observation(path)
    return Observation(**data)


def _no_observation(path: Path) -> UnreadableInput:
    return UnreadableInput(f"{path} is no observation", "delete it, or add --no-local")
