"""From a plan to what the scheduler is told: its pool, its groups, and the engine's own settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvplan.errors import UsageError, WouldNotStart
from kvplan.model.spec import State, Window
from kvplan.planner import GroupFacts, Plan
from kvplan.simulate.settings import Settings, consistent
from kvplan.simulate.tables import admission_cap

_WHOLE = ("full", "latent")
_WINDOWS = ("window", "latent_window")
_RULES = "full attention, latents and sliding windows can be simulated"


def settings_of(plan: Plan, **own: Any) -> Settings:
    """Return the scheduler's settings of a vLLM plan; `own` are those that a plan does not know (arrival, n, …).

    Raises WouldNotStart where the plan is refused, UsageError where it has no pool, or the cache a form that the
    simulator has no rules for.
    """
    check_plan(plan)
    if plan.verdict == "refused":
        reason = plan.reasons[0] if plan.reasons else None
        raise WouldNotStart(
            f"the engine would not start: {reason.message if reason else ''}", reason.hint if reason else ""
        )
    told = plan.engine_settings
    if plan.kv.num_blocks is None or plan.kv.block_size is None:
        raise UsageError("the plan has no pool to simulate", "name a --gpu, or give --num-gpu-blocks-override")
    settings = Settings(
        num_blocks=plan.kv.num_blocks,
        block_size=plan.kv.block_size,
        max_num_seqs=told["max_num_seqs"],
        max_num_batched_tokens=told["max_num_batched_tokens"],
        max_model_len=plan.kv.max_model_len,
        prefix_caching=bool(told["enable_prefix_caching"]),
        async_scheduling=bool(told["async_scheduling"]),
    )
    groups = tuple(window_of(plan, group) for group in plan.kv.groups)
    return consistent(replace(settings, groups=groups, **own))


def check_plan(plan: Plan) -> None:
    """Raise UsageError where the simulator has no rules for the engine, or for what the model keeps.

    A model with recurrent states is refused on every card, before a plan's other faults: they are not the reason.
    """
    if plan.engine != "vllm":
        raise UsageError(f"kvplan simulates vLLM's scheduler, not that of {plan.engine}", "--engine vllm")
    if any(isinstance(cache, State) for cache in plan.model.shape.distinct()):
        raise UsageError(f"{plan.model.id} keeps recurrent states, for which kvplan has no scheduler rules", _RULES)
    for group in plan.kv.groups:
        if group.kind not in _WHOLE and group.kind not in _WINDOWS:
            raise UsageError(f"{plan.model.id}: kvplan has no scheduler rules for groups of kind {group.kind}", _RULES)
        if group.block_size != plan.kv.block_size:
            raise UsageError(
                f"{plan.model.id}: its groups have blocks of {group.block_size} and {plan.kv.block_size} tokens",
                "kvplan simulates groups of one block size",
            )
    if not plan.kv.groups and plan.verdict != "refused":
        raise UsageError(f"{plan.model.id} keeps no KV cache", "there is no pool to simulate")


def window_of(plan: Plan, group: GroupFacts) -> int | None:
    """Return the sliding window of a group in tokens, None for full attention.

    The plan tells a group's blocks a request; of the model's windows it is the one that leads to them.
    """
    if group.kind in _WHOLE:
        return None
    windows = sorted({cache.window for cache in plan.model.shape.distinct() if isinstance(cache, Window)})
    told = plan.engine_settings
    if len(windows) == 1:
        return windows[0]
    settings = Settings(
        num_blocks=2,
        block_size=group.block_size,
        max_num_batched_tokens=told["max_num_batched_tokens"],
        max_model_len=plan.kv.max_model_len,
        async_scheduling=bool(told["async_scheduling"]),
    )
    found = [window for window in windows if admission_cap(window, settings) == group.blocks_per_request]
    if len(found) != 1:
        raise UsageError(f"the window of a {group.kind} group cannot be told", "give the scheduler's own --settings")
    return found[0]
