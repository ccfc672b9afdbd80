"""Which cards hold a load: every split of up to so many GPUs into TP x DP is put to the engine's planner.

Tensor parallelism spreads weights and KV heads over GPUs, and copies what does not spread: a latent cache (MLA), or KV
heads once there are more ranks than heads. Data parallelism copies the attention weights instead and gives each copy a
pool of its own; experts are spread over all GPUs either way. Which of the two holds more is the planner's answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from kvplan.engine.names import engine_id
from kvplan.errors import UnknownGpu, UsageError
from kvplan.fit.ask import Asker, args_of, setting, shortage, smaller_kv_dtypes
from kvplan.fit.prices import Prices
from kvplan.fit.wish import CardAnswer, Fit, Option, Refused, Wish
from kvplan.hardware import Gpu
from kvplan.model.spec import ModelSpec
from kvplan.planner import Note, Plan

MAX_GPUS = 256


@dataclass(frozen=True, slots=True)
class _Ask:
    wish: Wish
    max_gpus: int
    prices: Prices | None
    given: Mapping[str, Any]


def fit(
    model: ModelSpec,
    wish: Wish,
    cards: Sequence[Gpu],
    *,
    engines: Sequence[str] = ("vllm",),
    kv_cache_dtypes: Sequence[str] | None = None,
    max_gpus: int = 16,
    counts: Mapping[str, int] | None = None,
    prices: Prices | None = None,
    **given: Any,
) -> Fit:
    """Return the cards that hold the load, best first; `given` are flags that all of them share, by vLLM's names.

    Best is the cheapest where `prices` are given (cards without one are left out), else the fewest GPUs, and of as many
    the smallest cards. KV dtypes are tried in their order; None: the model's own, then the engine's fp8. `counts` are
    the most GPUs of some cards, by name, where there are fewer than `max_gpus`. Raises UnknownGpu where no card is left
    that can be planned.
    """
    engines = tuple(dict.fromkeys(engine_id(engine) for engine in engines))
    if not 1 <= max_gpus <= MAX_GPUS:
        raise UsageError(f"--max-gpus {max_gpus} is not between 1 and {MAX_GPUS}")
    ask = _Ask(wish, max_gpus, prices, {**given, "max_model_len": wish.context})
    planned = _planned(cards)
    asked = [card for card in planned if prices is None or card.name in prices.offers]
    askers = [Asker.of(engine, model, args_of(engine, ask.given)) for engine in engines]
    tried = [kv_cache_dtypes or ("auto", smaller_kv_dtypes(engine)[0]) for engine in engines]
    for engine, dtypes in zip(engines, tried, strict=True):
        for dtype in dtypes:
            args_of(engine, {"kv_cache_dtype": dtype})  # all is checked before anything is searched
    answers: list[CardAnswer] = []
    refused: list[Refused] = []
    for asker, dtypes in zip(askers, tried, strict=True):
        reasons = {size: asker.never(_change(size, 1, "auto")) for size in range(1, max_gpus + 1)}
        refused += _gathered(asker.engine, reasons)
        sizes = [size for size, reason in reasons.items() if reason is None]
        for card in asked:
            most = min(max_gpus, (counts or {}).get(card.name, max_gpus))
            answers.append(_answer(asker, replace(ask, max_gpus=most), card, sizes, dtypes))
    return Fit(
        model=model,
        wish=wish,
        engines=engines,
        max_gpus=max_gpus,
        found=tuple(sorted((answer for answer in answers if answer.options), key=_rank)),
        failed=tuple(sorted((answer for answer in answers if not answer.options), key=_farness)),
        refused=tuple(refused),
        currency=prices.currency if prices is not None else None,
        unpriced=len(planned) - len(asked),
        unplanned=tuple(card for card in cards if card not in planned),
    )


def _planned(cards: Sequence[Gpu]) -> list[Gpu]:
    planned = [card for card in cards if card.is_planned]
    if cards and not planned:
        labels = ", ".join(card.label for card in cards)
        raise UnknownGpu(
            f"the engines' worker on {labels} is not one that kvplan knows", "NVIDIA and AMD cards are planned"
        )
    return planned


def _gathered(engine: str, reasons: dict[int, Note | None]) -> Iterator[Refused]:
    alike: dict[str, list[tuple[int, Note]]] = {}
    for size, reason in reasons.items():
        if reason is not None:
            alike.setdefault(reason.code, []).append((size, reason))
    for found in alike.values():
        yield Refused(engine, tuple(size for size, _ in found), found[0][1])


def _change(tensor: int, data: int, dtype: str) -> dict[str, Any]:
    """Return the flags of a split, without those that say what the engine does anyway."""
    flags = {"tensor_parallel_size": tensor, "data_parallel_size": data, "kv_cache_dtype": dtype}
    return {name: value for name, value in flags.items() if value not in (1, "auto")}


def _answer(asker: Asker, ask: _Ask, card: Gpu, sizes: Sequence[int], dtypes: Sequence[str]) -> CardAnswer:
    """Return the fewest GPUs of one card for each KV dtype, or what came nearest."""
    if card.partition_of is not None:  # no collective spans the slices of a card
        sizes = [size for size in sizes if size == 1]
    found = [_fewest(asker, ask, card, sizes, dtype) for dtype in dtypes]
    meeting = [tried for tried in found if tried.layouts and tried.layouts[0].meets]
    # stable: of as many GPUs, the KV dtype that was asked for first
    meeting.sort(key=lambda tried: (tried.layouts[0].cost or 0, tried.layouts[0].gpus))
    if meeting:
        return CardAnswer(asker.engine, card, tuple(tried.layouts[0] for tried in meeting), meeting[0].layouts, None)
    nearest = [tried.nearest for tried in found if tried.nearest is not None]
    return CardAnswer(asker.engine, card, (), (), max(nearest, key=_reach, default=None))


@dataclass(frozen=True, slots=True)
class _Tried:
    """One card with one KV dtype: the splits of the fewest GPUs that do it, best first, or what came nearest."""

    layouts: tuple[Option, ...]
    nearest: Option | None


def _fewest(asker: Asker, ask: _Ask, card: Gpu, sizes: Sequence[int], dtype: str) -> _Tried:
    """Try more and more GPUs, and at each number every split.

    More copies leave a rank less of the experts and no more of anything else: a size that lacks memory with the most
    copies lacks it with fewer, and one that is refused in the same words with the most is refused with any.
    """
    widest: dict[int, Option] = {}
    hopeless: set[int] = set()
    nearest: list[Option] = []
    for gpus in range(1, ask.max_gpus + 1):
        tried = []
        for size in (size for size in sizes if gpus % size == 0 and size not in hopeless):
            tried.append(_option(asker, ask, card, size, gpus // size, dtype))
            if not tried[-1].plan.fits and size not in widest:
                widest[size] = _option(asker, ask, card, size, ask.max_gpus // size, dtype)
                if shortage(widest[size].plan) not in (0, inf) or widest[size].plan.reasons == tried[-1].plan.reasons:
                    hopeless.add(size)
        if any(option.meets for option in tried):
            best = sorted((o for o in tried if o.plan.fits), key=lambda o: (o.meets, o.requests, -o.data), reverse=True)
            return _Tried(tuple(best), None)
        nearest += tried
    return _Tried((), max((*nearest, *widest.values()), key=_reach, default=None))


def _option(asker: Asker, ask: _Ask, card: Gpu, tensor: int, data: int, dtype: str) -> Option:
    """Plan one split, with room in the batch for its share of the requests where no flag sets that."""
    share = -(-ask.wish.concurrency // data)
    flags = _change(tensor, data, dtype)
    plan = asker.plan(card, flags)
    running = plan.kv.max_running_requests
    if plan.fits and running is not None and running < share and asker.args.max_num_seqs is None:
        flags, plan = _wider(asker, ask.wish, card, flags, plan, share)
    held, needed, pool = _running(plan, ask.wish), plan.kv.sequence_bytes, plan.budget.kv_bytes
    return Option(
        plan=plan,
        tensor=tensor,
        data=data,
        requests=data * held,
        left_bytes=pool - share * needed if pool is not None and needed is not None else None,
        meets=held >= share,
        flags={**ask.given, **flags},
        cost=ask.prices.cost(card.name, tensor * data) if ask.prices is not None else None,
    )


def _wider(
    asker: Asker, wish: Wish, card: Gpu, flags: dict[str, Any], plan: Plan, share: int
) -> tuple[dict[str, Any], Plan]:
    """Return the flags, and their plan, of the batch that holds most requests, and no more than `share`.

    Each sequence of a batch takes memory from the pool, and a large batch all of it: where the pool does not hold what
    is wished for, the best batch is the one that the pool just fills, however much more is wished for.
    """

    def tried(count: int) -> tuple[dict[str, Any], Plan]:
        wide = flags | {"max_num_seqs": count} | _batch(asker, plan, count)
        return wide, asker.plan(card, wide)

    low, high = plan.kv.max_running_requests or share, share
    best, full = (flags, plan), tried(share)
    if _running(full[1], wish) >= share:
        return full
    if _held(plan, wish) <= low:  # the pool is the limit already
        return best
    while high - low > 1:
        middle = (low + high) // 2
        found = tried(middle)
        if _held(found[1], wish) >= middle:
            low, best = middle, found
        else:
            high, full = middle, found
    return max(best, full, key=lambda one: _running(one[1], wish))


def _running(plan: Plan, wish: Wish) -> float:
    """Return the requests of the wished context that one copy holds, and no more than it runs at once."""
    return min(_held(plan, wish), plan.kv.max_running_requests or inf)


def _batch(asker: Asker, plan: Plan, share: int) -> dict[str, int]:
    """Return what a batch of so many requests needs beside: at least a token each."""
    batched = setting(plan, "max_num_batched_tokens")
    if not isinstance(batched, int) or batched >= share or asker.args.max_num_batched_tokens is not None:
        return {}
    return {"max_num_batched_tokens": share}


def _held(plan: Plan, wish: Wish) -> float:
    """Return the requests of the wished context that one pool holds at once; no bound where nothing is cached."""
    if not plan.fits or plan.kv.max_model_len < wish.context:
        return 0
    return inf if plan.kv.max_concurrency is None else plan.kv.max_concurrency


def _reach(option: Option) -> tuple[float, float, int]:
    """Order what does not do: most requests, then least memory short of one, then fewest GPUs."""
    return option.requests, -shortage(option.plan), -option.gpus


def _rank(answer: CardAnswer) -> tuple[float, int, bool, int, str]:
    best = answer.options[0]
    assumed = any(note.code == "backend_assumed" for note in best.plan.warnings)
    return best.cost or 0, best.gpus, assumed, best.gpus * answer.gpu.memory_bytes, answer.gpu.name


def _farness(answer: CardAnswer) -> tuple[float, float, str]:
    if answer.closest is None:
        return inf, inf, answer.gpu.name
    requests, short, _ = _reach(answer.closest)
    return -requests, -short, answer.gpu.name
