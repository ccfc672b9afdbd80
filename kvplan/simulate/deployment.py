"""What is simulated: a model under an engine's flags, or a scheduler's own settings; and what else to try."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from kvplan.engine.args import engine_args
from kvplan.engine.names import NAMES
from kvplan.errors import UsageError
from kvplan.model.spec import ModelSpec
from kvplan.planner import Plan, plan
from kvplan.simulate.clock import Clock
from kvplan.simulate.settings import Settings, read_settings
from kvplan.simulate.setup import check_plan, settings_of
from kvplan.simulate.step_model import StepModel, step_model

# What an engine flag is called among the scheduler's settings, where there is no model to plan
_OF_FLAGS = {
    "num_gpu_blocks_override": "num_blocks",
    "block_size": "block_size",
    "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "max_model_len": "max_model_len",
    "enable_prefix_caching": "prefix_caching",
    "async_scheduling": "async_scheduling",
}
_FLAGS = {**NAMES["vllm"], "gpu": "gpu", "engine": "engine"}  # a flag, short or long, by its field


@dataclass(frozen=True, slots=True)
class Ask:
    """What a user says: `flags` are the engine's, `own` the scheduler's under the names of a replay's settings.

    `local` plans with what was measured on this machine (`kvplan verify --save`), its bandwidth among it.
    """

    model: ModelSpec | None
    flags: Mapping[str, Any]
    own: Mapping[str, Any]
    clock: Clock | None = None
    bandwidth: int | None = None
    local: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """One engine, ready to be simulated; `plan` is None where the scheduler's settings were given."""

    settings: Settings
    clock: StepModel
    plan: Plan | None


def deploy(ask: Ask) -> Deployment:
    """Plan what is asked; raises UsageError where it cannot be simulated."""
    if ask.model is None:
        settings, _ = read_settings({**ask.own, **_as_settings(ask.flags)})
        if ask.clock is not None:
            return Deployment(replace(settings, clock=ask.clock), StepModel(ask.clock, "given", ()), None)
        clock = StepModel(settings.clock, "given" if "clock_ns" in ask.own else "convention", ())
        return Deployment(settings, clock, None)
    flags = dict(ask.flags)
    engine, gpu = flags.pop("engine", "vllm"), flags.pop("gpu", None)
    made = plan(ask.model, engine=engine, gpu=gpu, local=ask.local, **flags)
    check_plan(made)
    clock = StepModel(ask.clock, "given", ()) if ask.clock is not None else step_model(made, ask.bandwidth)
    own, _ = read_settings({"num_blocks": 2, **ask.own})
    values = {f.name: getattr(own, f.name) for f in fields(Settings) if f.name in ask.own}
    return Deployment(settings_of(made, **values, clock=clock.clock), clock, made)


def changed(ask: Ask, changes: Mapping[str, Any]) -> Ask:
    """Return the ask with other values: the engine's flags where there is a model, else the scheduler's settings."""
    flags, own = dict(ask.flags), dict(ask.own)
    for name, value in changes.items():
        flag = _FLAGS.get(name)
        if flag is not None and (ask.model is not None or flag in _OF_FLAGS):
            flags[flag] = value
        elif flag is not None:
            raise UsageError(f"--compare {name}: that takes a MODEL to plan", f"settings: {', '.join(_OF_FLAGS)}, …")
        else:
            own[name] = value
    return replace(ask, flags=flags, own=own)


def parse_changes(text: str) -> dict[str, Any]:
    """Read `max_num_seqs=64,kv_cache_dtype=fp8`: values as JSON where they are, as words otherwise."""
    changes: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not value or name in changes:
            raise UsageError(f"--compare: {part[:60]!r} is not read", "NAME=VALUE,… or the name of a baseline")
        changes[name.lstrip("-").replace("-", "_")] = _value(value)
    return changes


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, dict | list) else value


def _as_settings(flags: Mapping[str, Any]) -> dict[str, Any]:
    unknown = [name for name in flags if name not in _OF_FLAGS]
    if unknown:
        raise UsageError(
            f"--{unknown[0].replace('_', '-')} takes a MODEL to plan", "kvplan simulate MODEL --gpu NAME --trace FILE"
        )
    read = engine_args(flags)
    return {_OF_FLAGS[name]: getattr(read, name) for name in flags}
