"""Which settings keep a promise, ranked, each with the replay that says so; and how many engines a load takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvplan.errors import KvplanError
from kvplan.simulate.baselines import Scenario
from kvplan.simulate.deployment import Ask, Deployment, changed, deploy
from kvplan.simulate.promise import Promise
from kvplan.simulate.run import Result
from kvplan.simulate.sources import Source
from kvplan.simulate.tasks import Task, merged, replicas

MAX_REPLICAS = 64
_SEQUENCES = (8, 16, 32, 64, 128, 256, 512, 1024)
_NARROW = "fp8"

Run = Callable[[Sequence[Task]], list[Result]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings that were tried: `changes` against what was asked, and what the replay came to."""

    changes: dict[str, object]
    deployment: Deployment
    result: Result
    kept: bool
    excess: float


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many engines keep the promise together; `count` None: not even the most that were tried."""

    count: int | None
    result: Result


def candidates(ask: Ask, base: Deployment, promise: Promise, source: Source, run: Run) -> list[Candidate]:
    """Try sequence counts, in the planned and in a narrower KV dtype, and rank them.

    First those that keep the promise, the planned dtype before the narrower and what finishes sooner before what
    finishes later; then the others, by how far they are from keeping it. Raises KeyboardInterrupt after Ctrl-C.
    """
    tried = [(changes, made) for changes in _changes(base) if (made := _deployable(ask, changes)) is not None]
    results = run([Task(Scenario(_name(changes), made.settings), source) for changes, made in tried])
    if len(results) < len(tried) or any(result.outcome == "interrupted" for result in results):
        raise KeyboardInterrupt
    found = [
        Candidate(changes, made, result, promise.kept(result), promise.excess(result))
        for (changes, made), result in zip(tried, results, strict=True)
    ]
    return sorted(found, key=_rank)


def fleet(best: Candidate, promise: Promise, source: Source, run: Run) -> Fleet:
    """Return the fewest engines that keep the promise with these settings, requests dealt in turn."""

    def tried(count: int) -> Result:
        scenario = Scenario(_name(best.changes), best.deployment.settings)
        results = run(replicas(scenario, source, count))
        result = merged(results, f"{count} replicas")
        if len(results) < count or result.outcome == "interrupted":
            raise KeyboardInterrupt
        return result

    count, result = 1, best.result
    while not promise.kept(result):
        if count == MAX_REPLICAS:
            return Fleet(None, result)
        count *= 2
        result = tried(count)
    low, high = count // 2, count
    while high - low > 1:
        middle = (low + high) // 2
        other = tried(middle)
        if promise.kept(other):
            high, result = middle, other
        else:
            low = middle
    return Fleet(high, result)


def _changes(base: Deployment) -> list[dict[str, object]]:
    told = base.settings.max_num_seqs
    counts = sorted({told, *(count for count in _SEQUENCES if count <= max(told, 256))})
    fitting = [count for count in counts if count <= base.settings.max_num_batched_tokens]
    dtypes: list[dict[str, object]] = [{}]
    if base.plan is not None and base.plan.engine_settings.get("kv_cache_dtype") in ("auto", "bfloat16", "float16"):
        dtypes.append({"kv_cache_dtype": _NARROW})
    return [{"max_num_seqs": count, **dtype} for dtype in dtypes for count in fitting]


def _deployable(ask: Ask, changes: dict[str, object]) -> Deployment | None:
    try:
        return deploy(changed(ask, changes))
    except KvplanError:  # a card without fp8, for one: not a candidate
        return None


def _name(changes: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in changes.items())


def _rank(one: Candidate) -> tuple[bool, float, bool, int, int]:
    return (
        not one.kept,
        0.0 if one.kept else one.excess,
        _NARROW in one.changes.values(),
        one.result.summary.end_ns,
        one.deployment.settings.max_num_seqs,
    )
