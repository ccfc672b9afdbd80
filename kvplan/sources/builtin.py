"""The checkpoints that ship with kvplan: profiles/models/OWNER--NAME.yaml, one file each.

A known id costs one open and one parse. Former names and checkpoints of the same geometry are found by the first lines
of the files: scripts/add_model.py writes `id:`, `aliases:` and `same_geometry:` first in each.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kvplan.assets import PROFILES
from kvplan.profile import plain
from kvplan.record import dataclass
from kvplan.sources.checkpoint import Checkpoint

MODELS = PROFILES / "models"


@dataclass(frozen=True, slots=True)
class Listing:
    """One built-in: its id as the Hub spells it, former ids, and other checkpoints whose kept fields are the same."""

    id: str
    aliases: tuple[str, ...]
    same_geometry: tuple[str, ...]


def builtin(model: str) -> Checkpoint | None:
    """Return the built-in checkpoint of an id, a former id or an id of the same geometry, or None.

    The exact spelling wins over another case. A former id answers with the present one; a checkpoint of the same
    geometry keeps its own id, and has no revision: the snapshot was another repository's.
    """
    if (path := _file(model)) is not None:
        return _load(path)
    found = _index().get(model) or _index().get(model.casefold())
    if found is None:
        return None
    listing, name = found
    return _load(MODELS / _file_name(listing.id), None if name == listing.id or name in listing.aliases else name)


def builtin_ids() -> list[str]:
    """List the ids, without former names, sorted regardless of case."""
    return [listing.id for listing in listings()]


def known_names() -> list[str]:
    """List every name that `builtin` answers to: for near matches."""
    return [name for entry in listings() for name in (entry.id, *entry.aliases, *entry.same_geometry)]


@cache
def listings() -> tuple[Listing, ...]:
    """List the built-ins by the heads of their files, sorted by id regardless of case."""
    found = (_head(path) for path in MODELS.glob("*.yaml"))
    return tuple(sorted(found, key=lambda entry: entry.id.casefold()))


@cache
def _index() -> dict[str, tuple[Listing, str]]:
    """Map every name, and after those every case-folded one, to its built-in and its spelling."""
    exact = {name: (e, name) for e in listings() for name in (e.id, *e.aliases, *e.same_geometry)}
    return {name.casefold(): found for name, found in exact.items()} | exact


def _file_name(model: str) -> str:
    return f"{model.replace('/', '--')}.yaml"


def _file(model: str) -> Path | None:
    """Return the file that an id names, if there is one; no id of the Hub is longer than 193 characters."""
    path = MODELS / _file_name(model)
    return path if "/" in model and len(model) < 200 and path.is_file() else None


def _head(path: Path) -> Listing:
    """Read `id`, `aliases` and `same_geometry`, which end where `revision:` begins."""
    head = plain(path.read_text(encoding="utf-8").partition("\nrevision:")[0])
    return Listing(head["id"], tuple(head["aliases"]), tuple(head["same_geometry"]))


def _load(path: Path, name: str | None = None) -> Checkpoint:
    document = plain(path.read_text(encoding="utf-8"))
    return Checkpoint(
        id=name or document["id"],
        source="built-in",
        config=document["config"],
        quant_config=document.get("hf_quant_config"),
        revision=None if name else document["revision"],
    )
