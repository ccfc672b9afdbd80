"""What each engine calls its figures: one YAML file an engine under profiles/metrics/, found by its prefix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kvplan.assets import PROFILES
from kvplan.profile import load

_FOLDER = PROFILES / "metrics"
_THRESHOLDS = "thresholds"
FIGURES = (
    "running", "waiting", "deferred", "usage", "preemptions", "finished", "prefix_hits", "prefix_queries", "hit_rate",
    "queue_seconds", "queue_count", "pool_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Series:
    """A metric's name without its prefix; where `label` is set, only the series whose label has one of `values`."""

    name: str
    label: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """An engine's names. `figures` holds the candidates of each figure, of which the first that is exposed counts.

    `replica_labels` tell independent schedulers apart, `rank_labels` only ranks or processes of one; `total_label` must
    be empty for a total; `info` is a gauge whose labels hold the cache's settings; `words` are the engine's own flags.
    """

    engine: str
    label: str
    prefixes: tuple[str, ...]
    replica_labels: tuple[str, ...]
    rank_labels: frozenset[str]
    total_label: str
    figures: Mapping[str, tuple[Series, ...]]
    info: str
    words: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit and where it comes from."""

    value: float
    source: str


@cache
def dialects() -> tuple[Dialect, ...]:
    """Return the engines that are known, by name."""
    paths = sorted(path for path in _FOLDER.glob("*.yaml") if path.stem != _THRESHOLDS)
    return tuple(_dialect(path.stem.replace("_", "-"), load(path)) for path in paths)


@cache
def thresholds() -> Mapping[str, Threshold]:
    """Return the limits by name."""
    found = load(_FOLDER / f"{_THRESHOLDS}.yaml")
    return {name: Threshold(**fields) for name, fields in found.items() if isinstance(fields, dict)}


def _dialect(engine: str, fields: dict[str, Any]) -> Dialect:
    return Dialect(
        engine=engine,
        label=fields["label"],
        prefixes=tuple(fields["prefixes"]),
        replica_labels=tuple(fields["replica_labels"]),
        rank_labels=frozenset(fields["rank_labels"]),
        total_label=fields.get("total_label", ""),
        figures={name: tuple(_series(entry) for entry in fields[name]) for name in FIGURES},
        info=fields["info"],
        words=fields["words"],
    )


def _series(entry: dict[str, Any]) -> Series:
    return Series(entry["name"], entry.get("label", ""), tuple(entry.get("values", ())))
