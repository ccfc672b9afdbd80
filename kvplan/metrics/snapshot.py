"""A scrape as figures: each replica's state, the server's counters, and what is missing, by the engine's own names."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kvplan.errors import UnreadableInput
from kvplan.metrics.dialect import Dialect, Series, dialects
from kvplan.metrics.exposition import Sample, samples
from kvplan.metrics.fetch import Body

_COUNTERS = ("preemptions", "finished", "prefix_hits", "prefix_queries", "queue_seconds", "queue_count")
_PAIRS = (("prefix_hits", "prefix_queries"), ("queue_seconds", "queue_count"))  # a ratio of one release's names
_SHARES = ("usage", "hit_rate")
_ROUNDING = 1e-6  # a full pool may be exposed as 1.0000000000000002
_LARGEST = 2.0**63  # no count of tokens or requests reaches it
_Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class State:
    """One scheduler at one moment; None is what it does not expose.

    `usage` is the share of the pool in use, 0 to 1; `deferred` of the `waiting` wait for something else than room.
    """

    replica: str
    running: float | None
    waiting: float | None
    deferred: float | None
    usage: float | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A server at one moment. `counters` count from its start; `moment` is in seconds of an unnamed clock.

    `names` says which metric each figure was read from, `missing` what an exposed metric holds instead of a figure.
    """

    dialect: Dialect
    model: str
    states: tuple[State, ...]
    counters: Mapping[str, float]
    hit_rate: float | None
    pool_tokens: int | None
    prefix_caching: bool | None
    names: Mapping[str, str]
    missing: tuple[str, ...]
    moment: float | None


def snapshot(body: Body) -> Snapshot:
    """Read a scrape; raise UnreadableInput where it holds no engine's metrics, or those of two engines."""
    by_engine = [(dialect, list(samples(body.text, dialect.prefixes))) for dialect in dialects()]
    speaking = [(dialect, found) for dialect, found in by_engine if found]
    if not speaking:
        labels = ", ".join(dialect.label for dialect, _ in by_engine)
        hint = next((dialect.words["enable"] for dialect, _ in by_engine if dialect.engine == "sglang"), "")
        raise UnreadableInput(f"{body.name} holds no metrics of {labels}", hint)
    if len(speaking) > 1:
        labels = " and ".join(dialect.label for dialect, _ in speaking)
        raise UnreadableInput(f"{body.name} holds metrics of {labels}", "give one server at a time")
    return _snapshot(*speaking[0], body)


def _snapshot(dialect: Dialect, found: Sequence[Sample], body: Body) -> Snapshot:
    by_name: dict[str, list[Sample]] = defaultdict(list)
    for sample in found:
        prefix = max((p for p in dialect.prefixes if sample.name.startswith(p)), key=len)
        by_name[sample.name[len(prefix) :]].append(sample)
    names: dict[str, str] = {}
    missing: dict[str, None] = {}
    figures = {
        figure: _figure(figure, candidates, by_name, dialect, names, missing)
        for figure, candidates in _paired(dialect, by_name).items()
    }
    state_of = ("running", "waiting", "deferred", "usage")
    replicas = dict.fromkeys(replica for figure in state_of for replica in figures[figure])
    info = by_name.get(dialect.info, ())
    moments = [sample.moment for sample in found if sample.moment is not None]
    models = dict.fromkeys(label for sample in found if (label := sample.label("model_name")))
    rates, pools = figures["hit_rate"].values(), figures["pool_tokens"].values()
    return Snapshot(
        dialect=dialect,
        model=", ".join(models),
        states=tuple(State(name, *(figures[figure].get(name) for figure in state_of)) for name in sorted(replicas)),
        counters={name: sum(figures[name].values()) for name in _COUNTERS if figures[name]},
        hit_rate=max(rates, default=None),
        pool_tokens=int(min(pools)) if pools else _pool(info),
        prefix_caching=_switch(info),
        names=names,
        missing=tuple(missing),
        moment=body.moment if body.moment is not None else max(moments, default=None),
    )


def _paired(dialect: Dialect, by_name: Mapping[str, Sequence[Sample]]) -> dict[str, tuple[Series, ...]]:
    """Return the candidates of each figure; of those that make a ratio, only the first names that come together."""
    found = dict(dialect.figures)
    for top, bottom in _PAIRS:
        both = zip(dialect.figures[top], dialect.figures[bottom], strict=True)
        together = [pair for pair in both if all(_exposed(series, by_name) for series in pair)][:1]
        found[top], found[bottom] = tuple(pair[0] for pair in together), tuple(pair[1] for pair in together)
    return found


def _figure(
    figure: str,
    candidates: Iterable[Series],
    by_name: Mapping[str, Sequence[Sample]],
    dialect: Dialect,
    names: dict[str, str],
    missing: dict[str, None],
) -> _Figures:
    """Return the figure of each replica, from the first candidate that is exposed with a usable value.

    Ranks of one scheduler repeat its figure, so the largest counts; series that differ by other labels (a finish
    reason, a cache's tier) are parts of a whole, so they add up.
    """
    for series in candidates:
        exposed = _exposed(series, by_name)
        usable = [sample for sample in _totals(exposed, dialect) if _is_figure(sample.value, figure)]
        if usable:
            names[figure] = usable[0].name
            return _by_replica(usable, dialect, join=max if figure in _SHARES else sum)
        if exposed:
            missing[f"{exposed[0].name} is {exposed[0].value:g}"] = None
    return {}


def _exposed(series: Series, by_name: Mapping[str, Sequence[Sample]]) -> list[Sample]:
    found = by_name.get(series.name, ())
    return [sample for sample in found if not series.label or sample.label(series.label) in series.values]


def _totals(exposed: Sequence[Sample], dialect: Dialect) -> Sequence[Sample]:
    """Keep the series that hold a total where the others only break it down."""
    if not dialect.total_label:
        return exposed
    return [sample for sample in exposed if not sample.label(dialect.total_label)] or exposed


def _is_figure(value: float, figure: str) -> bool:
    """V0 exposed a hit rate of -1 where the cache was off; NaN is what a dead worker's gauge holds."""
    return math.isfinite(value) and 0 <= value <= (1 + _ROUNDING if figure in _SHARES else _LARGEST)


def _by_replica(usable: Iterable[Sample], dialect: Dialect, join: Callable[[Iterable[float]], float]) -> _Figures:
    parts: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for sample in usable:
        replica = " ".join(f"{name} {value}" for name in dialect.replica_labels if (value := sample.label(name)))
        part = tuple(sorted(pair for pair in sample.labels if pair[0] not in dialect.rank_labels))
        parts[replica, part] = max(sample.value, parts.get((replica, part), 0.0))
    values: dict[str, list[float]] = defaultdict(list)
    for (replica, _), figure in parts.items():
        values[replica].append(figure)
    return {replica: join(of_replica) for replica, of_replica in values.items()}


def _pool(info: Sequence[Sample]) -> int | None:
    """Return the pool's tokens as vLLM's info gauge has them, else blocks times their size (older releases)."""
    for sample in info:
        tokens = _whole(sample.label("kv_cache_size_tokens"))
        if tokens is not None:
            return tokens
        blocks, size = _whole(sample.label("num_gpu_blocks")), _whole(sample.label("block_size"))
        if blocks is not None and size is not None:
            return blocks * size
    return None


def _whole(label: str) -> int | None:
    return int(label) if label.isascii() and label.isdigit() and len(label) <= 15 else None


def _switch(info: Sequence[Sample]) -> bool | None:
    words = {sample.label("enable_prefix_caching").lower() for sample in info}
    return True if "true" in words else False if "false" in words else None
