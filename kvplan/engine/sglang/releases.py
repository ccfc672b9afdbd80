"""What differs between SGLang's releases: profiles/engines/sglang.yaml as a record, and the lists of architectures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, Literal

from kvplan.assets import PROFILES
from kvplan.errors import UnknownEngine
from kvplan.profile import load
from kvplan.record import dataclass

_ENGINES = PROFILES / "engines"
_VERSION = re.compile(r"v?([0-9]{1,3})\.([0-9]{1,3})(?:\.([0-9]{1,3}))?(?:\.post([0-9]{1,2}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Tier:
    """Defaults of a card below `below_mib`: the prefill chunk, and the decode batch with TP below 4 and from 4 up."""

    below_mib: int | None
    chunk: int
    batch: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Release:
    """One release's defaults and rules; `stands_for` is the asked release where it was not read itself."""

    version: str
    stands_for: str | None
    tiers: tuple[Tier, ...]
    fraction: Literal["by_tp", "by_tp_and_card", "by_card", "by_work"]
    fraction_by_tp: tuple[tuple[int, float], ...]
    reserve_by_card: tuple[tuple[int | None, float, float], ...]
    prefill_graphs: bool
    multimodal_factor: float | None
    multimodal_off: bool
    multimodal_reserve: bool
    windows: Literal["whole", "by_method", "listed"]
    states: Literal["none", "fixed", "share"]
    indexer_counted: bool
    checkpoint_kv_dtype: bool
    weights_refused: bool

    def tier(self, memory_mib: int) -> Tier:
        """Return the defaults of a card of so many MiB."""
        return next(tier for tier in self.tiers if tier.below_mib is None or memory_mib < tier.below_mib)


@lru_cache(maxsize=8)
def release(version: str | None) -> Release:
    """Return a release: `0.5` is its newest, None the newest of all; raises UnknownEngine for what is no version."""
    profile = load(_ENGINES / "sglang.yaml")
    newest, oldest = _number(profile["newest"]), _number(profile["oldest"])
    wanted = version or profile["newest"]
    found = _VERSION.fullmatch(wanted)
    if found is None:
        raise UnknownEngine(
            f"{wanted[:40]!r} is no release of SGLang", f"kvplan knows {profile['oldest']} to {profile['newest']}"
        )
    major, minor, patch, _ = found.groups()
    number = (int(major), int(minor), int(patch)) if patch is not None else _latest((int(major), int(minor)), profile)
    planned = min(max(number, oldest), newest)
    values = {field.name: _at(profile[field.name], planned) for field in fields(Release) if field.name not in _OWN}
    values["tiers"] = tuple(Tier(row.get("below_mib"), row["chunk"], tuple(row["batch"])) for row in values["tiers"])
    for name in ("fraction_by_tp", "reserve_by_card"):
        values[name] = tuple(tuple(row) for row in values[name])
    text = ".".join(map(str, planned))
    return Release(version=text, stands_for=None if text in profile["read"] and planned == number else wanted, **values)


_OWN = frozenset({"version", "stands_for"})


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _latest(line: tuple[int, int], profile: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the newest release of a line such as 0.5 that was read; the line's first where none was."""
    known = [number for text in profile["read"] if (number := _number(text))[:2] == line]
    return max(known, default=(*line, 0))


def _at(section: Mapping[str, Any], number: tuple[int, ...]) -> Any:
    """Return a section's value for a release: that of the last key that is not later."""
    return section[[key for key in section if _number(key) <= number][-1]]


@lru_cache(maxsize=1)
def lists() -> Mapping[str, frozenset[str]]:
    """Return the architectures by list name: `native`, `latent`, `split_windows` and so on."""
    found = load(_ENGINES / "sglang.architectures.yaml")
    return {name: frozenset(names) for name, names in found.items() if isinstance(names, list)}


@lru_cache(maxsize=1)
def towers() -> Mapping[str, tuple[int, int]]:
    """Return (layers, width) of the vision tower that a config class makes by default, by model_type."""
    found = load(_ENGINES / "sglang.towers.yaml")["towers"]
    return {name: (layers, width) for name, (layers, width) in found.items()}
