"""Engines side by side on one card, and the rule that makes the difference between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log
from typing import Any, Literal

from kvplan.model.spec import Chunked, State, Window
from kvplan.planner import Plan
from kvplan.render.table import markdown_table, table
from kvplan.render.text import ENGINE_NAMES, describe_share, short_name, verdict_word
from kvplan.units import gib, quantity

HEADER = ("engine", "may use", "kv cache", "bytes a token", "tokens", "requests", "running", "verdict")
RIGHT = frozenset({2, 3, 4, 5, 6})
_SAME = 0.005  # ratios closer to 1 than this are no difference that needs a rule


@dataclass(frozen=True, slots=True)
class Difference:
    """Two engines' token figures, split into what memory and what a token's bytes contribute.

    `rule` is the larger of the two: `memory`, `bytes_per_token`, or `none` where the figures agree.
    """

    engines: tuple[str, str]
    tokens: float
    memory: float
    bytes_per_token: float
    rule: Literal["memory", "bytes_per_token", "none"]
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "engines": list(self.engines),
            "tokens_ratio": self.tokens,
            "memory_ratio": self.memory,
            "bytes_per_token_ratio": self.bytes_per_token,
            "rule": self.rule,
            "why": self.why,
        }


def differences(plans: Sequence[Plan]) -> list[Difference]:
    """Return the difference of every two plans that hold tokens, the larger holder first."""
    held = [plan for plan in plans if plan.kv.tokens and plan.budget.kv_bytes]
    found = []
    for first, second in combinations(held, 2):
        more, less = (first, second) if _tokens(first) >= _tokens(second) else (second, first)
        found.append(_difference(more, less))
    return found


def compare_lines(plans: Sequence[Plan], *, markdown: bool) -> list[str]:
    """Return the table of engines, the rules that they differ by, and each refusal in full."""
    shape = markdown_table if markdown else table
    lines = [*([f"### {plans[0].model.id}", ""] if markdown else [short_name(plans[0].model), ""])]
    lines += shape(HEADER, [_row(plan) for plan in plans], right=RIGHT)
    told = [difference.why for difference in differences(plans)]
    told += [f"{_name(plan)} refuses: {note.message}" for plan in plans for note in plan.reasons]
    mark = "- " if markdown else "  "
    return [*lines, "", *(mark + text for text in told)]


def _row(plan: Plan) -> tuple[str, ...]:
    kv = plan.kv
    share = describe_share(plan)
    return (
        f"{_name(plan)} {plan.engine_version.removesuffix('.0')}",
        share or "-",
        gib(plan.budget.kv_bytes) if plan.budget.kv_bytes is not None else "-",
        f"{kv.bytes_per_token or round(_each(plan)):,}" if kv.tokens else "-",
        f"{kv.tokens:,}" if kv.tokens is not None else "-",
        quantity(kv.max_concurrency, 2) if kv.max_concurrency is not None else "-",
        f"{kv.max_running_requests:,}" if kv.max_running_requests is not None else "-",
        verdict_word(plan),
    )


def _difference(more: Plan, less: Plan) -> Difference:
    tokens = _tokens(more) / _tokens(less)
    memory = _bytes(more) / _bytes(less)
    each = _each(more) / _each(less)
    rule: Literal["memory", "bytes_per_token", "none"] = "none"
    if abs(tokens - 1) > _SAME:
        rule = "memory" if log(memory) >= -log(each) else "bytes_per_token"
    why = _why(more, less, tokens, memory, each)
    return Difference((more.engine, less.engine), tokens, memory, each, rule, why)


def _why(more: Plan, less: Plan, tokens: float, memory: float, each: float) -> str:
    """Say which rules make the ratio: of memory, of a token's bytes, or of both, whose product it is."""
    names = (_name(more), _name(less))
    if abs(tokens - 1) <= _SAME:
        return f"{names[0]} and {names[1]} hold the same number of tokens"
    head = f"{names[0]} holds {quantity(tokens, 2)} x the tokens of {names[1]}, "
    memories = f"{gib(_bytes(more))} of KV cache against {gib(_bytes(less))}"
    tokens_bytes = f"{round(_each(more)):,} against {round(_each(less)):,}"
    by_memory = f"{names[0]} {_memory_rule(more)}; {names[1]} {_memory_rule(less)}"
    by_token = f"{names[0]} {_token_rule(more)}; {names[1]} {_token_rule(less)}"
    if abs(each - 1) <= _SAME:
        return f"{head}by its rule for memory: {memories}. {by_memory}"
    if abs(memory - 1) <= _SAME:
        return f"{head}by its rule for a token's bytes: {tokens_bytes}. {by_token}"
    return (
        f"{head}which is {quantity(memory, 2)} by its rule for memory ({memories})"
        f" x {quantity(1 / each, 2)} by its rule for a token's bytes ({tokens_bytes})."
        f" Memory: {by_memory}. Bytes: {by_token}"
    )


def _memory_rule(plan: Plan) -> str:
    """Say in words how an engine comes to the bytes of its pool, with this plan's figures."""
    share = describe_share(plan)
    lines = {line.name: line.bytes for line in plan.budget.lines}
    match plan.engine:
        case "sglang":
            states = f" and {gib(lines['states'])} of states" if "states" in lines else ""
            return (
                f"takes {share} and subtracts the weights ({gib(lines['weights'])}){states}; the rest is for its work"
            )
        case "tensorrt-llm":
            return f"takes {share}"
        case _:
            others = sum(size for name, size in lines.items() if name not in ("weights", "kv_cache"))
            return f"takes {share} and subtracts the weights and a measured peak of {gib(max(0, others))}"


def _token_rule(plan: Plan) -> str:
    """Say in words what an engine charges a token of context with."""
    caches = list(plan.model.shape.caches())
    windows = any(isinstance(cache, Window | Chunked) for cache in caches)
    states = any(isinstance(cache, State) for cache in caches)
    pools = {pool.name for pool in plan.kv.pools}
    if plan.engine == "sglang" and windows:
        ratio = "keeps windows in a pool of their own, a fixed share of the tokens"
        return ratio if "window" in pools else "keeps every layer at full length, windows too"
    if plan.engine == "sglang" and states:
        return "gives states a pool of their own and charges a token with attention layers alone"
    if plan.engine == "tensorrt-llm" and windows:
        return "splits memory among window pools by what each holds of a request of this length"
    if windows or states:
        return "shares one pool among all kinds of layers, and prints what requests of this length hold"
    dtype = plan.engine_settings.get("kv_cache_dtype")
    return f"keeps every layer in {dtype}" if dtype != "auto" else "keeps every layer in the model's dtype"


def _tokens(plan: Plan) -> int:
    return plan.kv.tokens or 0


def _bytes(plan: Plan) -> int:
    """Return the bytes of the pools that hold requests: an engine's states belong to them."""
    states = sum(line.bytes for line in plan.budget.lines if line.name == "states")
    return (plan.budget.kv_bytes or 0) + states


def _each(plan: Plan) -> float:
    return _bytes(plan) / _tokens(plan)


def _name(plan: Plan) -> str:
    return ENGINE_NAMES.get(plan.engine, plan.engine)
