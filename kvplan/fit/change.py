"""The cheapest change that makes a deployment fit: `kvplan size … --fit`.

It fits where the engine starts and its pool holds a request of the length that was asked for: some engines start all
the same, and shorten requests or turn them away.

What may be changed, in the stated order, from what costs least to what costs most:

    max_num_batched_tokens   prefills take more steps            steps of 256 down to 512, never below the sequences
    max_num_seqs             fewer requests in a batch           steps of 8 down to 8
    gpu_memory_utilization   less room for what lies outside     steps of 0.01 (down where too much was asked for)
    kv_cache_dtype           coarser keys and values             the engine's smaller dtypes
    max_model_len            shorter requests                    single tokens down to 1,024
    tensor_parallel_size     more GPUs                           the sizes that the model allows, up to 16

Changes that keep the GPUs come before those that take more; among them fewer changes come first, then the stated order.
Where several are combined, the dearest is changed as little as possible, then the next dearest. Every answer is the
planner's: along each line the search keeps a step that is refused beside one that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import inf
from typing import Any

from kvplan.errors import UsageError
from kvplan.fit.ask import Asker, setting, shortage, smaller_kv_dtypes
from kvplan.hardware import Gpu
from kvplan.planner import Plan

MOST_TENSOR = 16
SHORTEST = 1024
_BATCH_STEP, _BATCH_FLOOR = 256, 512
_SEQUENCES_STEP = 8
_LEAST_SHARE, _MOST_SHARE = 50, 99  # hundredths
_SHARE = "gpu_memory_utilization"
_MOST_TOKENS, _MOST_SEQUENCES = 2**27, 2**16


@dataclass(frozen=True, slots=True)
class Knob:
    """A flag with its value as it is, and the values to change it to, from the smallest change to the largest.

    `ordered`: where one value fits, all later ones do, so that the first can be found by bisection.
    """

    name: str
    before: Any
    steps: Sequence[Any]
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """A flag before and after."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Remedy:
    """Changes made together, in the stated order, and what the engine makes of the deployment then."""

    changes: tuple[Change, ...]
    plan: Plan


@dataclass(frozen=True, slots=True)
class Limits:
    """As the deployment stands, each with the rest unchanged; 0 where nothing fits, None where nothing bounds it.

    `longest` is the longest --max-model-len, at most what the model allows; `sequences` the largest --max-num-seqs.
    """

    longest: int | None
    sequences: int | None


@dataclass(frozen=True, slots=True)
class Repair:
    """A deployment as it stands and what makes it fit.

    `remedy` is the cheapest; None where nothing is needed or nothing helps, and then `closest` lacks least. `single`
    are all changes of one flag that do.
    """

    plan: Plan
    needed: bool
    limits: Limits
    knobs: tuple[str, ...]
    single: tuple[Remedy, ...]
    remedy: Remedy | None
    closest: Remedy | None


def repair(asker: Asker, gpu: Gpu | None, *, most_gpus: int | None = None) -> Repair:
    """Find what makes a deployment fit; `most_gpus` is the number of cards that there are, where that is known.

    Raises UsageError where no memory is named.
    """
    plan = asker.plan(gpu, {})
    if plan.verdict is None:
        raise UsageError("--fit needs a card", "name one with --gpu, or its memory with --gpu-memory")
    # without a card no engine shortens anything; under "auto" any length will do
    length = 1 if asker.args.max_model_len == "auto" else asker.plan(None, {}).kv.max_model_len
    search = _Search(asker, gpu, length)
    needed = not search.fits({})
    limits = Limits(
        longest=_largest(lambda most: search.fits({"max_model_len": most}), 1 if needed else length, _MOST_TOKENS),
        sequences=_largest(lambda most: search.fits({"max_num_seqs": most}), 1, _MOST_SEQUENCES),
    )
    knobs = tuple(knobs_of(asker, plan, length, most_gpus))
    names = tuple(knob.name for knob in knobs)
    if not needed:
        return Repair(plan, needed, limits, names, (), None, None)
    single = tuple(found for knob in knobs if (found := search.least((knob,))) is not None)
    remedy = next((found for some in subsets(knobs) if (found := search.least(some)) is not None), None)
    closest = search.closest(knobs) if remedy is None else None
    return Repair(plan, needed, limits, names, single, remedy, closest)


def subsets(knobs: Sequence[Knob]) -> Iterator[tuple[Knob, ...]]:
    """Yield what can be changed together, cheapest first."""
    more = [knob for knob in knobs if knob.name == "tensor_parallel_size"]
    same = [knob for knob in knobs if knob not in more]
    for gpus in ([], more):
        for count in range(len(same) + 1):
            yield from ((*some, *gpus) for some in combinations(same, count) if some or gpus)


def knobs_of(asker: Asker, plan: Plan, length: int, most_gpus: int | None) -> Iterator[Knob]:
    """Yield what can be changed at all, in the stated order; `length` is the one that was asked for."""
    tokens, sequences = setting(plan, "max_num_batched_tokens"), setting(plan, "max_num_seqs")
    share = setting(plan, _SHARE)
    if isinstance(tokens, int):
        floor = max(_BATCH_FLOOR, sequences if isinstance(sequences, int) else 1)
        yield Knob("max_num_batched_tokens", tokens, _below(tokens, floor, _BATCH_STEP))
    if isinstance(sequences, int):
        yield Knob("max_num_seqs", sequences, _below(sequences, _SEQUENCES_STEP, _SEQUENCES_STEP))
    if isinstance(share, float):
        now = round(share * 100)
        down, up = range(now - 1, _LEAST_SHARE - 1, -1), range(now + 1, _MOST_SHARE + 1)
        hundredths = down if _asks_too_much(plan) else up
        yield Knob(_SHARE, share, [step / 100 for step in hundredths], ordered=False)
    dtype = str(setting(plan, "kv_cache_dtype"))
    yield Knob("kv_cache_dtype", dtype, _smaller(plan.engine, dtype), ordered=False)
    yield Knob("max_model_len", length, range(length - 1, SHORTEST - 1, -1))
    tensor = asker.args.tensor_parallel_size
    copies = asker.args.world_size // tensor
    most = MOST_TENSOR if most_gpus is None else min(MOST_TENSOR, most_gpus // copies)
    sizes = [size for size in range(tensor + 1, most + 1) if asker.never({"tensor_parallel_size": size}) is None]
    yield Knob("tensor_parallel_size", tensor, sizes, ordered=False)


def _asks_too_much(plan: Plan) -> bool:
    return any(note.code == "free_memory_below_request" for note in plan.reasons)


def _below(now: int, floor: int, step: int) -> range:
    """Return the multiples of `step` below `now` and not below `floor`, the largest first."""
    return range((now - 1) // step * step, floor - 1, -step)


def _smaller(engine: str, dtype: str) -> Sequence[str]:
    """Return the KV dtypes below one: those after it in the engine's row, all of them below the model's own."""
    row = smaller_kv_dtypes(engine)
    family = next((i for i, name in enumerate(row) if dtype.startswith(name.partition("_")[0])), -1)
    return row[family + 1 :]


@dataclass(frozen=True, slots=True)
class _Search:
    """Questions to the planner about one deployment."""

    asker: Asker
    gpu: Gpu | None
    length: int

    def plan(self, change: Mapping[str, Any]) -> Plan:
        return self.asker.plan(self.gpu, change)

    def fits(self, change: Mapping[str, Any]) -> bool:
        return self._serves(self.plan(change), change)

    def _serves(self, plan: Plan, change: Mapping[str, Any]) -> bool:
        kv, length = plan.kv, change.get("max_model_len", self.length)
        return plan.fits and kv.max_model_len >= length and (kv.max_concurrency is None or kv.max_concurrency >= 1)

    def can(self, knobs: Sequence[Knob], fixed: Mapping[str, Any]) -> bool:
        """Say whether any setting of the knobs makes it fit beside what is fixed."""
        shares = [sorted(knob.steps, reverse=True) for knob in knobs if knob.name == _SHARE]
        others = [knob for knob in knobs if knob.name != _SHARE]
        lines = [knob.steps[-1:] if knob.ordered else knob.steps[::-1] for knob in others]
        changes = (dict(zip((knob.name for knob in others), values, strict=True)) for values in product(*lines))
        if not shares:
            return any(self.fits({**change, **fixed}) for change in changes)
        return any(self._fits_with_most({**change, **fixed}, shares[0]) for change in changes)

    def _fits_with_most(self, change: Mapping[str, Any], shares: Sequence[float]) -> bool:
        """Say whether the largest share that the card can give is enough; smaller ones give less."""
        for share in shares:
            plan = self.plan({**change, _SHARE: share})
            if not _asks_too_much(plan):
                return self._serves(plan, change)
        return False

    def least(self, knobs: tuple[Knob, ...]) -> Remedy | None:
        """Return the least change of exactly these knobs that fits, the dearest changed least; None where none does."""
        fixed: dict[str, Any] = {}
        if not self.can(knobs, fixed):
            return None
        for place in range(len(knobs) - 1, -1, -1):
            knob, cheaper = knobs[place], knobs[:place]

            def reaches(step: int, knob: Knob = knob, cheaper: Sequence[Knob] = cheaper) -> bool:
                return self.can(cheaper, {**fixed, knob.name: knob.steps[step]})

            fixed[knob.name] = knob.steps[_first(reaches, len(knob.steps), ordered=knob.ordered)]
        changes = tuple(Change(knob.name, knob.before, fixed[knob.name]) for knob in knobs)
        return Remedy(changes, self.plan(fixed))

    def closest(self, knobs: Sequence[Knob]) -> Remedy | None:
        """Return the largest change, which lacks least; None where memory is not what is lacking."""
        turned = [knob for knob in knobs if knob.steps]
        lines = [knob.steps[-1:] if knob.ordered else knob.steps for knob in turned]
        found = None
        for values in product(*lines):
            plan = self.plan(dict(zip((knob.name for knob in turned), values, strict=True)))
            if not _asks_too_much(plan) and shortage(plan) < (inf if found is None else shortage(found.plan)):
                changes = (Change(knob.name, knob.before, value) for knob, value in zip(turned, values, strict=True))
                found = Remedy(tuple(changes), plan)
        return found


def _first(holds: Callable[[int], bool], count: int, *, ordered: bool) -> int:
    """Return the first step that holds; one does, and where they are ordered the last does."""
    if not ordered:
        return next(step for step in range(count) if holds(step))
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _largest(holds: Callable[[int], bool], known: int, limit: int) -> int | None:
    """Return the largest number that holds, by doubling from one that should and bisection.

    0 where that one does not; None where all do up to `limit`.
    """
    if not holds(known):
        return 0
    low, high = known, min(2 * known, limit)
    while low < high and holds(high):
        low, high = high, min(2 * high, limit)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return None if low == limit else low
