"""KVP008: tensor parallelism copies the KV cache."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.checks.case import Case
from kvplan.checks.finding import Severity
from kvplan.checks.registry import Hit, check
from kvplan.engine.args import MAX_WORLD
from kvplan.model.spec import Full, Latent

_DP_ATTENTION = ("enable_dp_attention", "enable_attention_dp", "attn_dp_size")


@check("KVP008", "kv-cache-replicated", Severity.NOTE)
def rule(case: Case) -> Iterator[Hit]:
    """Tensor parallelism copies the KV cache instead of splitting it.

    A model with fewer KV heads than tensor-parallel ranks keeps each head on several GPUs; multi-head latent attention
    has one compressed vector a token, which every rank keeps whole. The GPUs then hold the same tokens over and over.
    Data parallelism keeps different requests on each GPU: as many times more tokens. This is advice, not a fault.

    Bad: DeepSeek-R1 with `--tensor-parallel-size 8`.
    Good: `--data-parallel-size 8 --enable-expert-parallel`.
    Fix: data parallelism for what is copied.
    """
    found, spec = case.deployment, case.spec
    tp = found.value("tensor_parallel_size", 1)
    if (
        spec is None
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
        yield Hit(place, f"latent attention: each of {tp} ranks keeps the whole KV cache", _advice(found.engine, tp))
        return
    heads = [cache.kv_heads for cache in caches if isinstance(cache, Full)]
    fewest = min(heads, default=tp)
    if 0 < fewest < tp:
        copies = tp // fewest
        yield Hit(
            place,
            f"{fewest} KV heads over {tp} ranks: {copies} GPUs keep the same part of the KV cache",
            f"--tensor-parallel-size {fewest} with --data-parallel-size {copies}",
        )


def _advice(engine: str, tp: int) -> str:
    if engine == "sglang":
        return f"--enable-dp-attention --dp-size {tp}"
    if engine == "tensorrt-llm":
        return "enable_attention_dp: true"
    return f"--data-parallel-size {tp} --enable-expert-parallel, without tensor parallelism"
