"""What a practitioner would try, in that order, and what the replay says of each: lengths first, more machines last."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.simulate.deployment import Deployment
from kvplan.simulate.run import Result
from kvplan.units import quantity

_ROUND_UP = 1024  # lengths are suggested in whole KiB of tokens
_OFTEN = 0.05  # a twentieth of the steps, or of the requests, is worth a word


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to try: `flags` change something, and `why` is the evidence; without flags it is a finding."""

    code: str
    why: str
    flags: str = ""


def suggested_length(result: Result, percent: float = 100) -> int:
    """Return a max_model_len that holds so many percent of the trace's requests, rounded up."""
    length = result.summary.lengths.at(percent) or 0
    # lengths are counted to 9 bits: up to the next value they count as this one
    length = min(length + (1 << max(0, length.bit_length() - 9)), result.summary.longest_request)
    return -(-length // _ROUND_UP) * _ROUND_UP


def advise(deployment: Deployment, result: Result) -> list[Advice]:
    """Return what to try, in order, with what speaks for it."""
    found = [
        _lengths(deployment, result),
        _utilisation(deployment, result),
        _batched_tokens(result),
        _preemptions(result),
        _kv_dtype(deployment, result),
        _tensor_parallel(deployment, result),
        _scale_out(result),
    ]
    return [advice for advice in found if advice is not None]


def _lengths(deployment: Deployment, result: Result) -> Advice | None:
    told = deployment.settings.max_model_len
    length = suggested_length(result)
    refused = result.problems.get("prompt_too_long")
    if refused is not None:
        why = f"{refused.count:,} requests are refused for their length"
        return Advice("lengths", why, f"--max-model-len {length}")
    if length * 2 > told:
        return None
    p99 = result.summary.lengths.at(99) or 0
    longest = result.summary.longest_request
    why = f"the longest request has {longest:,} tokens, 99 % about {p99:,} or less, and {told:,} are allowed"
    return Advice("lengths", why, f"--max-model-len {length}")


def _utilisation(deployment: Deployment, result: Result) -> Advice | None:
    used = result.summary.peak_used_blocks / deployment.settings.usable
    share = None
    if deployment.plan is not None:
        share = deployment.plan.engine_settings.get("gpu_memory_utilization")
    if used < 1 - _OFTEN:
        return Advice("utilisation", f"the pool was never fuller than {used:.0%}: memory does not limit this load")
    if isinstance(share, float) and share < 0.95:
        why = f"the pool was full, and {share:.0%} of the card's memory may be used"
        return Advice("utilisation", why, "--gpu-memory-utilization 0.95")
    return None


def _batched_tokens(result: Result) -> Advice | None:
    summary = result.summary
    often = summary.full_steps / max(1, summary.steps)
    if often < _OFTEN:
        return None
    budget = result.settings.max_num_batched_tokens
    why = (
        f"{often:.0%} of the steps had no token left of {budget:,} while requests waited;"
        " more shortens their wait, and lengthens every step"
    )
    return Advice("batched_tokens", why, f"--max-num-batched-tokens {budget * 2}")


def _preemptions(result: Result) -> Advice | None:
    summary = result.summary
    if not summary.preemptions:
        return None
    again = summary.resumed_queried_tokens - summary.resumed_hit_tokens
    why = (
        f"{summary.preemptions:,} preemptions of {summary.preempted_requests:,} requests"
        f" ({summary.preempted_requests / max(1, summary.requests):.1%}); {again:,} tokens computed again"
    )
    fewer = max(1, round(summary.sum_running / max(1, summary.steps)))
    return Advice("preemptions", why, f"--max-num-seqs {fewer}" if fewer < result.settings.max_num_seqs else "")


def _kv_dtype(deployment: Deployment, result: Result) -> Advice | None:
    plan = deployment.plan
    if plan is None or not result.summary.preemptions:
        return None
    if plan.engine_settings.get("kv_cache_dtype") not in ("auto", "bfloat16", "float16"):
        return None
    return Advice("kv_dtype", "half the bytes a token hold about twice the tokens", "--kv-cache-dtype fp8")


def _tensor_parallel(deployment: Deployment, result: Result) -> Advice | None:
    plan = deployment.plan
    if plan is None or not result.summary.preemptions or plan.gpu is None or not plan.weights_per_rank:
        return None
    size = int(plan.engine_settings["tensor_parallel_size"])
    share = plan.weights_per_rank / plan.gpu.memory_bytes
    if share < 0.3:
        return None
    why = f"weights take {share:.0%} of each card; twice the cards leave more than twice the pool"
    return Advice("tensor_parallel", why, f"--tensor-parallel-size {size * 2}")


def _scale_out(result: Result) -> Advice | None:
    summary = result.summary
    waited = summary.queue_ns.at(99)
    if not waited or not summary.busy_ns or result.settings.arrival == "all":
        return None
    step = summary.itl_ns.at(50) or 0
    if waited < 20 * step:
        return None
    why = f"one request in a hundred waits {quantity(waited / 10**9, 1)} s or more before it runs"
    return Advice("scale_out", why, "--replicas 2")
