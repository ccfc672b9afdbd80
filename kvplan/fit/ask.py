"""Asking an engine's planner many times: the flags are checked and a draft is read once, not once a card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from kvplan.engine.args import EngineArgs, engine_args
from kvplan.engine.names import engine_id, own_name
from kvplan.engine.registry import Planner, find_engine
from kvplan.errors import UsageError
from kvplan.hardware import Gpu
from kvplan.model.spec import ModelSpec
from kvplan.planner import Note, Plan, check_quantization, read_draft

# The KV dtypes below the model's own that an engine takes on most cards, largest first
_SMALLER: Mapping[str, tuple[str, ...]] = {
    "vllm": ("fp8", "nvfp4"),
    "sglang": ("fp8_e4m3",),
    "tensorrt-llm": ("fp8", "nvfp4"),
}
# Codes of refusals that no card changes: they speak of the model, its length and the flags alone
_ANYWHERE = frozenset({
    "architecture_removed", "architecture_plugin", "architecture_unsupported", "config_rejected",
    "max_model_len_too_long", "quantization_unsupported",
})  # fmt: skip
_OF_A_SIZE = "_not_divisible"


@dataclass(frozen=True, slots=True)
class Asker:
    """One model under one engine (`name` or `name@release`), with the flags that all questions share."""

    engine: str
    model: ModelSpec
    args: EngineArgs
    planner: Planner
    draft: ModelSpec | None
    changed: dict[tuple[tuple[str, Any], ...], EngineArgs] = field(default_factory=dict)

    @classmethod
    def of(cls, engine: str, model: ModelSpec, args: EngineArgs, *, local: bool = False) -> Asker:
        """Find the engine, and read the draft that the flags name; raises a KvplanError. `local` is that of plan()."""
        planner = find_engine(engine, local=local)
        check_quantization(model, args)
        return cls(engine, model, args, planner, read_draft(args))

    def plan(self, gpu: Gpu | None, change: Mapping[str, Any]) -> Plan:
        """Plan with fields of EngineArgs changed; the same change is the same record, which planners may know again."""
        key = tuple(change.items())
        if key not in self.changed:
            self.changed[key] = replace(self.args, **change)
        args = self.changed[key]
        return self.planner(self.model, args, gpu, args.world_size, self.draft)

    def never(self, change: Mapping[str, Any]) -> Note | None:
        """Return why no card would do, None where one may."""
        reasons = self.plan(None, change).reasons
        return next((note for note in reasons if note.code in _ANYWHERE or note.code.endswith(_OF_A_SIZE)), None)


def args_of(engine: str, given: Mapping[str, Any]) -> EngineArgs:
    """Check flags that are named as vLLM names them, for any engine; raises UsageError."""
    base = engine_id(engine).partition("@")[0]
    find_engine(engine)  # an unknown one is told before its flags are
    names = {name: own_name(name, base) for name in given}
    missing = [name for name, own in names.items() if own is None]
    if missing:
        raise UsageError(f"{base} has no flag like --{missing[0].replace('_', '-')}")
    return engine_args({own: given[name] for name, own in names.items() if own is not None}, base)


def flag(engine: str, name: str) -> str:
    """Return what an engine calls a field of EngineArgs on its command line."""
    return "--" + (own_name(name, engine_id(engine).partition("@")[0]) or name).replace("_", "-")


def setting(plan: Plan, name: str) -> Any:
    """Return a setting that the engine ended up with, under vLLM's name or its own; None where it has none."""
    found = plan.engine_settings
    return found.get(name, found.get(own_name(name, plan.engine) or name))


def smaller_kv_dtypes(engine: str) -> tuple[str, ...]:
    """Return the KV dtypes below the model's own that an engine takes, largest first."""
    return _SMALLER[engine_id(engine).partition("@")[0]]


def shortage(plan: Plan) -> float:
    """Return the bytes that one GPU lacks for a single request; no bound where memory is not what is lacking."""
    pool = next((line.bytes for line in plan.budget.lines if line.name == "kv_cache"), None)
    needed = plan.kv.sequence_bytes
    return inf if pool is None or needed is None else max(0, needed - pool)
