"""The step clock out of a plan: what a step must read and compute, at the card's own figures. Modelled, always.

    a step       the weights of a rank, read once                             / bandwidth
    a token      2 FLOP for each parameter that computes it                   / FLOP/s
    a KV token   the keys and values of one computed token                    / bandwidth
    a request    the window that sliding-window layers read, at most          / bandwidth

Reading and computing are added, not overlapped; communication between ranks and the host's own time are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvplan.assets import PROFILES
from kvplan.errors import UsageError
from kvplan.planner import Plan
from kvplan.profile import load
from kvplan.simulate.baselines import Swap
from kvplan.simulate.clock import Clock
from kvplan.simulate.setup import window_of

_PS = 10**12  # picoseconds in a second
Basis = Literal["convention", "given", "modelled"]


@dataclass(frozen=True, slots=True)
class StepModel:
    """A clock, where it comes from, and what it rests on (in words, a line each)."""

    clock: Clock
    basis: Basis
    why: tuple[str, ...]


def step_model(plan: Plan, bandwidth: int | None = None) -> StepModel:
    """Return the clock of a plan; `bandwidth` is what a user measured, in bytes a second.

    Raises UsageError where the plan has no card, or the card no figures.
    """
    gpu = plan.gpu
    if gpu is None:
        raise UsageError("a step's duration needs a card", "--gpu NAME, or --clock STEP,TOKEN,KVTOKEN in nanoseconds")
    facts = load(PROFILES / "simulate.yaml")
    read = bandwidth if bandwidth is not None else (gpu.bandwidth and gpu.bandwidth * facts["bandwidth_share"]["value"])
    compute = gpu.tflops.get("bf16") or gpu.tflops.get("fp16")
    if not read or not compute or not plan.weights_per_rank:
        raise UsageError(
            f"{gpu.label} has no bandwidth or FLOP/s in the catalogue", "--clock STEP,TOKEN,KVTOKEN in nanoseconds"
        )
    share = facts["compute_share"]["value"]
    tp = int(plan.engine_settings["tensor_parallel_size"])
    parameters = active_parameters(plan)
    flops = 2 * parameters / tp
    kv, window = _kv_bytes(plan)
    clock = Clock(
        step_ps=round(plan.weights_per_rank / read * _PS),
        token_ps=round(flops / (compute * 10**12 * share) * _PS),
        kv_token_ps=round(kv / read * _PS),
        request_ps=round(window / read * _PS),
    )
    measured = any(note.code == "card_observed" for note in plan.warnings)
    source = "as given" if bandwidth is not None else "as verify measured" if measured else "of the catalogue"
    moved = f"weights: {plan.weights_per_rank / 10**9:.1f} GB a rank, KV: {kv:,} bytes a token"
    why = (
        f"{moved}, at {read / 10**12:.2f} TB/s {source}",
        f"compute: {flops / 10**9:.1f} GFLOP a token at {share:.0%} of {compute:,.0f} TFLOP/s",
    )
    return StepModel(clock, "modelled", why)


def active_parameters(plan: Plan) -> int:
    """Return the parameters that compute one token: of experts those that a token is sent to.

    Neither the embedding nor the output head: the one is looked up in, the other computes sampled tokens only.
    """
    from kvplan.roofline import active_of  # noqa: PLC0415  # 20 ms that only a modelled clock pays

    used = active_of(plan)
    if used is None:  # no rule for its tensors: the bytes of a rank, at two bytes a parameter
        return (plan.weights_per_rank or 0) * int(plan.engine_settings["tensor_parallel_size"]) // 2
    return max(1, used.parameters)


def _kv_bytes(plan: Plan) -> tuple[int, int]:
    """Return the bytes of a token in layers that read all tokens, and of a window in those that read one."""
    whole, windows = 0, 0
    for group in plan.kv.groups:
        token = group.page_bytes * group.layers // group.block_size
        window = window_of(plan, group)
        if window is None:
            whole += token
        else:
            windows += token * window
    return whole, windows


def swap_cost(plan: Plan) -> Swap | None:
    """Return the cost of moving a request out and in over the card's PCIe link, None where that is not known."""
    if plan.gpu is None:
        return None
    from kvplan.gpu_catalogue import card  # noqa: PLC0415  # its card is read already, and cached

    facts, link = load(PROFILES / "simulate.yaml"), card(plan.gpu.name).get("pcie")
    if not isinstance(link, dict) or not link.get("gb_s_per_dir"):
        return None
    rate = link["gb_s_per_dir"] * 10**9 * facts["pcie_share"]["value"]
    whole, _ = _kv_bytes(plan)
    return Swap(2 * whole / rate * 10**9, facts["swap_fixed_us"]["value"] * 1000)
