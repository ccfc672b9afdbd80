"""How fast a deployment could decode at best: the bytes that a step must read, over the bandwidth that reads them.

A bound, not a forecast: kernels reach some 80 % of a card's bandwidth, ranks talk to each other, and a server
schedules. A step reads the weights (of experts those that the batch is sent to), the keys and values of every request
at its length, and its states. Nothing else is counted, so that no engine is faster. Prefill is bound by arithmetic
instead.
"""

from __future__ import annotations

from collections.abc import Callable

from kvplan.errors import UsageError
from kvplan.model.weights import Ranks
from kvplan.model.weights.active import Active, active
from kvplan.model.weights.schemes.scheme import HOPPER
from kvplan.planner import Plan
from kvplan.record import dataclass
from kvplan.traffic import Request, attention_flops, read_of

_PAST_THE_POOL = 64  # requests, where no card says how many fit
_EIGHT_BITS = frozenset({"fp8", "fbgemm_fp8", "modelopt", "compressed-tensors"})


@dataclass(frozen=True, slots=True)
class Decode:
    """One decode step of `batch` requests: what a rank reads, and the time that takes at best."""

    batch: int
    weight_bytes: int
    kv_bytes: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all requests together."""
        return self.batch / self.seconds


@dataclass(frozen=True, slots=True)
class Prefill:
    """The arithmetic of one prompt on one rank, and the time that takes at best."""

    tokens: int
    flops: float
    flops_per_second: float

    @property
    def seconds(self) -> float:
        """The time at the card's peak."""
        return self.flops / self.flops_per_second


@dataclass(frozen=True, slots=True)
class Roofline:
    """The bounds of one deployment at one length of its requests.

    `bandwidth` is in bytes a second, `basis` where it comes from; `prefill` is None where the card's FLOP/s or the
    model's parameters are not known.
    """

    bandwidth: int
    basis: str
    context: int
    decode: tuple[Decode, ...]
    prefill: Prefill | None


def roofline(plan: Plan, bandwidth: int | None = None) -> Roofline:
    """Return the bounds at max_model_len, from a batch of one to as many requests as fit.

    `bandwidth` stands in for the card's. Raises UsageError where neither is known.
    """
    rate, basis = _bandwidth(plan, bandwidth)
    used = active_of(plan)
    read, context = _weights(plan, used), plan.kv.max_model_len
    held = read_of(plan.model.shape, _request(plan, context))
    steps = []
    for batch in _batches(plan):
        weights, cache = read(batch), batch * held
        steps.append(Decode(batch, round(weights), round(cache), (weights + cache) / rate))
    return Roofline(rate, basis, context, tuple(steps), _prefill(plan, used, context))


def kv_computations(tokens: int, *, cached: bool) -> int:
    """Return how many keys and values a layer computes to write so many tokens one by one, with a cache or without."""
    return tokens if cached else tokens * (tokens + 1) // 2


def _bandwidth(plan: Plan, given: int | None) -> tuple[int, str]:
    if given is not None:
        return given, "as given"
    if plan.gpu is None or not plan.gpu.bandwidth:
        card = f"{plan.gpu.label} has none in the catalogue" if plan.gpu is not None else "no card was named"
        raise UsageError(f"a bound needs a memory bandwidth: {card}", "--gpu NAME, or --bandwidth '2 TB/s'")
    return plan.gpu.bandwidth, f"the data sheet of the {plan.gpu.label}"


def _setting(plan: Plan, *names: str) -> int:
    """Return a parallel size by the engine's own name for it, 1 where the plan has none."""
    return next((int(plan.engine_settings[name]) for name in names if plan.engine_settings.get(name)), 1)


def _request(plan: Plan, tokens: int) -> Request:
    settings = plan.engine_settings
    return Request(
        tokens=tokens,
        tp=_setting(plan, "tensor_parallel_size", "tp_size"),
        dcp=_setting(plan, "decode_context_parallel_size"),
        kv_dtype=str(settings.get("kv_cache_dtype", "auto")),
        dtype=str(settings.get("dtype") or plan.model.dtype),
    )


def active_of(plan: Plan) -> Active | None:
    """Return what computes one token, of all ranks; None where no rule knows the model's tensors."""
    settings = plan.engine_settings
    capability = plan.gpu.compute_capability if plan.gpu is not None else None
    ranks = Ranks(
        tensor=_setting(plan, "tensor_parallel_size", "tp_size"),
        data=_setting(plan, "data_parallel_size"),
        expert_parallel=bool(settings.get("enable_expert_parallel")),
    )
    dtype, asked = str(settings.get("dtype") or plan.model.dtype), settings.get("quantization")
    return active(plan.model, ranks, dtype, asked, capability or HOPPER)


def _weights(plan: Plan, used: Active | None) -> Callable[[int], float]:
    """Return the bytes of weights that a step of so many requests reads on a rank, over all pipeline stages.

    Given or estimated weights are read whole, but for the share of experts that no token is sent to.
    """
    line = next((line for line in plan.budget.lines if line.name == "weights"), None)
    if used is not None and (line is None or line.basis == "exact"):
        return used.read
    whole = (plan.weights_per_rank or 0) * _setting(plan, "pipeline_parallel_size", "pp_size")
    if used is None or not used.experts:
        return lambda _batch: whole
    part = used.experts / (used.dense + used.experts)
    return lambda batch: whole * (1 - part * (1 - used.share(batch)))


def _batches(plan: Plan) -> list[int]:
    """Return 1, 2, 4, … and the most requests of this length that run at once."""
    most = plan.kv.max_concurrency
    limit = plan.kv.max_running_requests or plan.engine_settings.get("max_num_seqs")
    last = _PAST_THE_POOL if most is None else max(1, int(most))
    last = min(last, int(limit)) if limit else last
    doubling = [2**power for power in range(last.bit_length()) if 2**power < last]
    return [*doubling, last]


def _prefill(plan: Plan, used: Active | None, tokens: int) -> Prefill | None:
    """Return the bound of one prompt: two FLOPs a parameter and token, and those of attention."""
    if plan.gpu is None or used is None or not used.parameters:
        return None
    quantization = plan.model.quantization
    method = plan.engine_settings.get("quantization") or (quantization.method if quantization is not None else "")
    peak = plan.gpu.tflops.get("fp8") if method in _EIGHT_BITS else None
    peak = peak or plan.gpu.tflops.get("bf16") or plan.gpu.tflops.get("fp16")
    if not peak:
        return None
    flops = 2 * used.parameters * tokens + attention_flops(plan.model.shape, tokens)
    return Prefill(tokens, flops / _setting(plan, "tensor_parallel_size", "tp_size"), peak * 10**12)
