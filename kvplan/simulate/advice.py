"""What a practitioner would try, in that order, and what the replay says of each: lengths first, more machines last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.simulate.deployment import Deployment
from kvplan.simulate.run import Result
from kvplan.units import quantity

_ROUND_UP = 1024  # lengths are suggested in whole KiB of tokens
_OFTEN = 0.05  # a twentieth of the steps, or of the requests, is worth a word
_FEWER = (7 / 8, 3 / 4)  # of the sequences that ran at most: what may keep a full pool from preempting


@dataclass(frozen=True, slots=True)
class Proposal:
    """A finding, `why`, and what may better it: `tries` in order, and the `claims` of which a replay must show one.

    `price` is what a replay does not show. `certain`: the claim is enough, whatever else gets worse. `stays`: worth a
    word even where no try is better.
    """

    code: str
    why: str
    tries: tuple[Mapping[str, int | float | str], ...] = ()
    claims: tuple[str, ...] = ()
    price: str = ""
    certain: bool = False
    stays: bool = False


def suggested_length(result: Result, percent: float = 100) -> int:
    """Return a max_model_len that holds so many percent of the trace's requests, rounded up."""
    length = result.summary.lengths.at(percent) or 0
    # lengths are counted to 9 bits: up to the next value they count as this one
    length = min(length + (1 << max(0, length.bit_length() - 9)), result.summary.longest_request)
    return -(-length // _ROUND_UP) * _ROUND_UP


def proposals(deployment: Deployment, result: Result, replicas: int = 1) -> list[Proposal]:
    """Return what the replay of so many engines speaks for, in order; nothing of it has been tried."""
    found = [
        _lengths(deployment, result),
        _sequences(result) or _utilisation(deployment, result),
        _batched_tokens(result),
        _preemptions(result),
        _kv_dtype(deployment, result),
        _tensor_parallel(deployment, result),
        _scale_out(result, replicas),
    ]
    return [proposal for proposal in found if proposal is not None]


def _lengths(deployment: Deployment, result: Result) -> Proposal | None:
    told = deployment.settings.max_model_len
    length = suggested_length(result)
    refused = result.problems.get("prompt_too_long")
    if refused is not None:
        why = f"{refused.count:,} requests are refused for their length"
        return Proposal("lengths", why, ({"max_model_len": length},), ("finished",), certain=True, stays=True)
    if length * 2 > told:
        return None
    p99 = result.summary.lengths.at(99) or 0
    longest = result.summary.longest_request
    why = (
        f"the longest request has {longest:,} tokens, 99 % about {p99:,} or less, and {told:,} are allowed:"
        f" --max-model-len {length} holds them all"
    )
    return Proposal("lengths", why, stays=True)


def _sequences(result: Result) -> Proposal | None:
    """Speak where requests waited for a place among the sequences, and the pool had room for more of them."""
    summary, settings = result.summary, result.settings
    used = summary.peak_used_blocks / settings.usable
    if summary.max_running < settings.max_num_seqs or not summary.max_waiting or used >= 1 - _OFTEN:
        return None
    why = (
        f"sequences limit this load: {summary.max_running:,} of {settings.max_num_seqs:,} ran while up to"
        f" {summary.max_waiting:,} waited, and the pool was never fuller than {used:.0%}"
    )
    # as many as fill the pool if they are like those that ran, at most four times as many
    more = max(settings.max_num_seqs + 1, int(settings.max_num_seqs * min(4, 1 / max(used, 0.01))))
    return Proposal("sequences", why, ({"max_num_seqs": more},), ("wait", "rate"), stays=True)


def _utilisation(deployment: Deployment, result: Result) -> Proposal | None:
    used = result.summary.peak_used_blocks / deployment.settings.usable
    share = None
    if deployment.plan is not None:
        share = deployment.plan.engine_settings.get("gpu_memory_utilization")
    if used < 1 - _OFTEN:
        why = f"the pool was never fuller than {used:.0%}: memory does not limit this load"
        return Proposal("utilisation", why, stays=True)
    if isinstance(share, float) and share < 0.95:
        why = f"the pool was full, and {share:.0%} of the card's memory may be used"
        return Proposal("utilisation", why, ({"gpu_memory_utilization": 0.95},), ("wait", "preemptions"))
    return None


def _batched_tokens(result: Result) -> Proposal | None:
    summary = result.summary
    often = summary.full_steps / max(1, summary.steps)
    if often < _OFTEN:
        return None
    budget = result.settings.max_num_batched_tokens
    why = f"{often:.0%} of the steps had no token left of {budget:,} while requests waited"
    return Proposal("batched_tokens", why, ({"max_num_batched_tokens": budget * 2},), ("wait",), "every step is longer")


def _preemptions(result: Result) -> Proposal | None:
    summary = result.summary
    if not summary.preemptions:
        return None
    again = summary.resumed_queried_tokens - summary.resumed_hit_tokens
    why = (
        f"{summary.preemptions:,} preemptions of {summary.preempted_requests:,} requests"
        f" ({summary.preempted_requests / max(1, summary.requests):.1%}); {again:,} tokens computed again"
    )
    tries = tuple({"max_num_seqs": max(1, int(summary.max_running * share))} for share in _FEWER)
    return Proposal("preemptions", why, tries, ("preemptions",), stays=True)


def _kv_dtype(deployment: Deployment, result: Result) -> Proposal | None:
    plan = deployment.plan
    if plan is None or not result.summary.preemptions:
        return None
    if plan.engine_settings.get("kv_cache_dtype") not in ("auto", "bfloat16", "float16"):
        return None
    # latent, packed and recurrent layers gain less than half: the replay of the plan itself says how much
    why = "keys and values of half the bytes hold up to twice the tokens"
    return Proposal("kv_dtype", why, ({"kv_cache_dtype": "fp8"},), ("wait", "preemptions"), "keys and values of 8 bits")


def _tensor_parallel(deployment: Deployment, result: Result) -> Proposal | None:
    plan = deployment.plan
    if plan is None or not result.summary.preemptions or plan.gpu is None or not plan.weights_per_rank:
        return None
    size = int(plan.engine_settings["tensor_parallel_size"])
    share = plan.weights_per_rank / plan.gpu.memory_bytes
    if share < 0.3:
        return None
    why = f"weights take {share:.0%} of each card; twice the cards leave more than twice the pool"
    tries = ({"tensor_parallel_size": size * 2},)
    return Proposal("tensor_parallel", why, tries, ("wait", "preemptions"), "twice the cards")


def _scale_out(result: Result, replicas: int) -> Proposal | None:
    summary = result.summary
    waited = summary.queue_ns.at(99)
    if not waited or not summary.busy_ns or result.settings.arrival == "all":
        return None
    step = summary.itl_ns.at(50) or 0
    if waited < 20 * step:
        return None
    why = f"one request in a hundred waits {quantity(waited / 10**9, 1)} s or more before it runs"
    return Proposal("scale_out", why, ({"replicas": replicas * 2},), ("wait",), "twice the cards")
