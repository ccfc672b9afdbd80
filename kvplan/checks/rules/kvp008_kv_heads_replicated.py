"""KVP008: tensor parallelism copies the KV cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.reasons import BEYOND_POOL, NO_ROOM, refusals
from kvplan.checks.registry import Hit, check
from kvplan.engine.args import MAX_WORLD
from kvplan.model.spec import Full, Latent, ModelSpec

_DP_ATTENTION = ("enable_dp_attention", "enable_attention_dp", "attn_dp_size")


@check("KVP008", "kv-cache-replicated", Severity.NOTE)
def rule(case: Case) -> Iterator[Hit]:
    """Tensor parallelism copies the KV cache instead of splitting it.

    A model with fewer KV heads than tensor-parallel ranks keeps each head on several GPUs; multi-head latent attention
    has one compressed vector a token, which every rank keeps whole. The GPUs then hold the same tokens over and over.
    Data parallelism keeps different requests on each GPU, context parallelism different tokens. This is advice, not a
    fault; it is planned before it is given: where the engine would not start so, or hold no more tokens, nothing is
    said, and where the memory is too small as it is, KVP005 and KVP006 speak.

    Bad: DeepSeek-R1 with `--tensor-parallel-size 8`.
    Good: `--data-parallel-size 8 --enable-expert-parallel`.
    Fix: data parallelism for what is copied, or `--decode-context-parallel-size`.
    """
    found, spec = case.deployment, case.spec
    tp = found.value("tensor_parallel_size", 1)
    if (
        spec is None
        or any(refusals(case, NO_ROOM | BEYOND_POOL))
        or not isinstance(tp, int)
        or not 2 <= tp <= MAX_WORLD
        or any(name in found.arguments for name in _DP_ATTENTION)
    ):
        return
    place = found.place_of("tensor_parallel_size")
    caches = list(spec.shape.caches())
    if any(isinstance(cache, Latent) for cache in caches):
        if found.value("decode_context_parallel_size", 1) != 1:
            return
        fix = _accepted(case, _for_latent(case, spec, tp))
        if fix:
            yield Hit(place, f"latent attention: each of {tp} ranks keeps the whole KV cache", fix)
        return
    heads = [cache.kv_heads for cache in caches if isinstance(cache, Full)]
    fewest = min(heads, default=tp)
    if 0 < fewest < tp:
        copies = tp // fewest
        dp = copies * _data_parallel(case)
        words = f"--tensor-parallel-size {fewest} with --data-parallel-size {dp}"
        other = Other(words, copies, {"tensor_parallel_size": fewest, "data_parallel_size": dp})
        fix = _accepted(case, [other])
        if fix:
            yield Hit(
                place, f"{fewest} KV heads over {tp} ranks: {copies} GPUs keep the same part of the KV cache", fix
            )


class Other(NamedTuple):
    """Other arguments: in words, how many pools they make of one, and under the engine's names."""

    words: str
    pools: int
    changes: Mapping[str, Any]


def _data_parallel(case: Case) -> int:
    size = case.deployment.value("data_parallel_size", 1)
    return size if isinstance(size, int) else 1


def _for_latent(case: Case, spec: ModelSpec, tp: int) -> Iterator[Other]:
    """Yield what keeps latent attention's cache once, the best known way first."""
    if case.deployment.engine == "sglang":
        yield Other(
            f"--enable-dp-attention --dp-size {tp}", tp, {"enable_dp_attention": True, "data_parallel_size": tp}
        )
    elif case.deployment.engine == "tensorrt-llm":
        yield Other("enable_attention_dp: true", tp, {"enable_attention_dp": True})
    else:
        dp = tp * _data_parallel(case)
        experts = spec.num_experts > 1
        words = f"--data-parallel-size {dp}{' --enable-expert-parallel' if experts else ''}, without tensor parallelism"
        alone = {"tensor_parallel_size": 1, "data_parallel_size": dp, "enable_expert_parallel": experts}
        yield Other(words, tp, alone)
        yield Other(f"--decode-context-parallel-size {tp}", 1, {"decode_context_parallel_size": tp})


def _accepted(case: Case, others: Iterable[Other]) -> str:
    """Return the first of the arguments with which the engine starts and holds more tokens, empty where none does."""
    held = case.plan.kv.tokens if case.plan is not None else None
    for other in others:
        plan = case.replan(other.changes)
        if plan is None or plan.verdict == "refused":
            continue
        if held is None or plan.kv.tokens is None or plan.kv.tokens * other.pools > held:
            return other.words
    return ""
