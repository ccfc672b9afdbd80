"""What happened between two snapshots, or since the server's start where there is only one."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.metrics.snapshot import Snapshot

_ROUNDING = 1e-6  # counters are exposed with as few as seven digits


@dataclass(frozen=True, slots=True)
class Flow:
    """Rates; None is what is not known. `seconds` is None from the start of a server: nobody says how long ago it was.

    `since` is "start" or "first snapshot"; `restarted` says that counters went back between the two, `still` that none
    of them moved; `inconsistent` names counters that contradict each other, whose ratio is not known then.
    """

    since: str
    seconds: float | None
    restarted: bool
    preemptions: float | None
    finished: float | None
    preemptions_a_minute: float | None
    preemptions_a_request: float | None
    hit_rate: float | None
    queried_tokens: float | None
    queue_seconds: float | None
    still: bool
    inconsistent: tuple[str, ...] = ()


def flow(first: Snapshot | None, last: Snapshot, interval: float | None) -> Flow:
    """Return the rates from `first` to `last`; `interval`, in seconds, goes before the snapshots' own moments."""
    counters = dict(last.counters)
    restarted = first is not None and any(counters.get(name, value) < value for name, value in first.counters.items())
    between = first is not None and not restarted
    if first is not None and between:
        counters = {name: value - first.counters[name] for name, value in counters.items() if name in first.counters}
    seconds = _seconds(first, last, interval) if between else None
    preemptions, finished = counters.get("preemptions"), counters.get("finished")
    queried = counters.get("prefix_queries")
    hits = counters.get("prefix_hits")
    queued = counters.get("queue_count")
    inconsistent = _inconsistent(hits, queried)
    return Flow(
        since="first snapshot" if between else "start",
        seconds=seconds,
        restarted=restarted,
        preemptions=preemptions,
        finished=finished,
        preemptions_a_minute=preemptions * 60 / seconds if preemptions is not None and seconds else None,
        preemptions_a_request=preemptions / finished if preemptions is not None and finished else None,
        hit_rate=None if inconsistent else hits / queried if hits is not None and queried else last.hit_rate,
        queried_tokens=queried,
        queue_seconds=counters["queue_seconds"] / queued if queued else None,
        still=between and bool(counters) and not any(counters.values()),
        inconsistent=inconsistent,
    )


def _inconsistent(hits: float | None, queried: float | None) -> tuple[str, ...]:
    """Name the counters of which a part is more than its whole."""
    if hits is None or queried is None or hits <= queried * (1 + _ROUNDING):
        return ()
    return (f"{hits:,.0f} prefix hits of {queried:,.0f} tokens looked up",)


def _seconds(first: Snapshot | None, last: Snapshot, interval: float | None) -> float | None:
    if interval is not None:
        return interval
    if first is None or first.moment is None or last.moment is None:
        return None
    passed = last.moment - first.moment
    return passed if passed > 0 else None
