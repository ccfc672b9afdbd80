"""From a deployment to a plan: its arguments under the engine's names, its card, its model, or why there is no plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kvplan.checks.case import Replan, no_plan
from kvplan.checks.connectors import drops_hybrid
from kvplan.checks.models import Models, NotLocked
from kvplan.checks.reasons import ASSUMED
from kvplan.config import Config, DeploymentSetting
from kvplan.engine.args import EngineArgs, engine_args
from kvplan.engine.names import ENGINES, NAMES, engine_id
from kvplan.engine.registry import Planner, find_engine
from kvplan.errors import HubUnreachable, InvalidConfig, KvplanError, RefusedValue, UnknownEngine
from kvplan.hardware import Gpu, find_gpu
from kvplan.manifests.deployment import Deployment
from kvplan.model.quantization import missing_quantization
from kvplan.model.spec import ModelSpec
from kvplan.planner import Plan

# TensorRT-LLM's options nest what its flags say flat
_NESTED = {"kv_cache_config": {"dtype": "kv_cache_dtype", "free_gpu_memory_fraction": "free_gpu_memory_fraction",
                               "tokens_per_block": "tokens_per_block", "max_tokens": "max_tokens",
                               "enable_block_reuse": "enable_block_reuse"}}  # fmt: skip

_REWRITES = frozenset({"hf_overrides", "rope_scaling", "json_model_override_args"})


class Unplanned(KvplanError):
    """A deployment that cannot be planned, and why in a word or two: `engine`, `model`."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What came of planning: a plan, or why there is none.

    `reachable` is False where the Hub could not be asked; `refused` is a flag's value that the engine would not take.
    """

    gpu: Gpu | None
    spec: ModelSpec | None = None
    plan: Plan | None = None
    unplanned: str | None = None
    promised: Plan | None = None
    guessed: tuple[str, ...] = ()
    reachable: bool = True
    refused: RefusedValue | None = None
    replan: Replan = no_plan


def plan_deployment(found: Deployment, setting: DeploymentSetting, config: Config, models: Models) -> Planned:
    """Plan a deployment. Raises `NotLocked`; all else that goes wrong is why there is no plan."""
    gpu = card(found, setting, config)
    guessed = ("gpu",) if gpu is not None and gpu.assumed_among else ()
    spec = None
    try:
        spec = models.spec(_reference(found, setting, config), _overrides(found))
        plan, promised = _plans(found, setting, spec, gpu, models)
    except NotLocked:
        raise
    except KvplanError as error:
        return Planned(
            gpu,
            spec,
            unplanned=error.message,
            guessed=guessed,
            reachable=not isinstance(error, HubUnreachable),
            refused=error if isinstance(error, RefusedValue) else None,
        )
    assumed = {ASSUMED[note.code] for note in plan.warnings if note.code in ASSUMED}
    if stated_release(found, setting) is None:
        assumed.add("release")
    replan = partial(_replan, found, setting, spec, gpu, models)
    return Planned(gpu, spec, plan, promised=promised, guessed=tuple(sorted({*guessed, *assumed})), replan=replan)


def _replan(
    found: Deployment,
    setting: DeploymentSetting,
    spec: ModelSpec,
    gpu: Gpu | None,
    models: Models,
    changes: Mapping[str, Any],
) -> Plan | None:
    """Plan a deployment with other arguments, None where they are none that the engine takes."""
    try:
        args = _checked(found, spec, changes)
        return _planner(found, setting)(spec, args, gpu, args.world_size, _draft(args, models))
    except KvplanError:
        return None


def _plans(
    found: Deployment, setting: DeploymentSetting, spec: ModelSpec, gpu: Gpu | None, models: Models
) -> tuple[Plan, Plan | None]:
    """Return the plan, and the one at the promised length where a load is promised."""
    missing = _unresolved(found)
    if missing:
        raise Unplanned(f"{missing} is not resolved")
    planner, args = _planner(found, setting), _checked(found, spec)
    draft = _draft(args, models)
    plan = planner(spec, args, gpu, args.world_size, draft)
    if setting.workload is None:
        return plan, None
    tokens = setting.workload.tokens()
    at_tokens = replace(args, max_model_len=tokens) if tokens is not None else args
    return plan, planner(spec, at_tokens, gpu, args.world_size, draft)


def _overrides(found: Deployment) -> Mapping[str, Any]:
    """Return what the flags change in config.json. One without a value is why there is no plan, a line later."""
    names = NAMES[found.engine].keys() & found.arguments.keys() & _REWRITES
    values = {name: found.arguments[name].value for name in names if not found.arguments[name].unknown}
    return engine_args(values, found.engine).overrides


def stated_release(found: Deployment, setting: DeploymentSetting) -> str | None:
    """Return the engine's release that kvplan.yaml or the image's tag states."""
    engine, _, release = engine_id(setting.engine or "").partition("@")
    return release if release and engine == found.engine else found.release


def memory_arguments(found: Deployment) -> dict[str, Any]:
    """Return the arguments that move memory, under the names that the engine's planner reads."""
    given: dict[str, Any] = {}
    for name, argument in found.arguments.items():
        inner = _NESTED.get(name, {})
        if inner and isinstance(argument.value, Mapping):
            given |= {inner[key]: value for key, value in argument.value.items() if key in inner}
        elif name in NAMES[found.engine]:
            given[name] = argument.value
    return given


def _planner(found: Deployment, setting: DeploymentSetting) -> Planner:
    """Return the planner of the stated release, else of the newest."""
    release = stated_release(found, setting)
    if release is None:
        return find_engine(found.engine)
    try:
        return find_engine(f"{found.engine}@{release}")
    except UnknownEngine:
        return find_engine(found.engine)


def _checked(found: Deployment, spec: ModelSpec, changes: Mapping[str, Any] | None = None) -> EngineArgs:
    args = engine_args(memory_arguments(found) | dict(changes or {}), found.engine)
    named = missing_quantization(spec)
    if named is not None and args.kv_cache_dtype == "auto":
        raise InvalidConfig(f"{spec.id} is named {named}, but its files do not say how it is quantised")
    args = replace(args, allow_long_max_model_len=found.allows_long)
    # the engine switches its hybrid cache off beside such a connector, whatever else is said
    return replace(args, disable_hybrid_kv_cache_manager=True) if drops_hybrid(found) is not None else args


def _draft(args: EngineArgs, models: Models) -> ModelSpec | None:
    """Return the draft model of speculative decoding, where it is a checkpoint of its own."""
    section = args.speculative_config or {}
    name = args.sglang.speculative_draft_model_path or section.get("model")
    # multi-token prediction drafts with layers of the model itself, n-grams with none
    if not isinstance(name, str) or "/" not in name or section.get("method") in ("mtp", "ngram", "suffix"):
        return None
    return models.spec(name)


def card_name(found: Deployment, setting: DeploymentSetting, config: Config) -> str | None:
    """Return what the card is called: by kvplan.yaml's entry, else by the manifest, else for all deployments."""
    return setting.gpu or found.topology.gpu or config.gpu


def card(found: Deployment, setting: DeploymentSetting, config: Config) -> Gpu | None:
    """Return the card: as kvplan.yaml says, else as the manifest does. None where kvplan does not plan it."""
    name = card_name(found, setting, config)
    try:
        found_card = find_gpu(name) if name is not None else None
    except KvplanError:
        return None
    return found_card if found_card is not None and found_card.is_planned else None


def _reference(found: Deployment, setting: DeploymentSetting, config: Config) -> str:
    """Return the model to plan: as kvplan.yaml says, else as the manifest says where that is a Hub id."""
    if found.engine not in ENGINES:
        raise Unplanned("engine")
    if setting.model is not None:
        return setting.model
    for name in (found.model, found.served_model_name):
        if name is not None and name in config.models:
            return config.models[name]
    if found.source != "hf" or found.model is None:
        raise Unplanned("model")
    revision = found.value("revision")
    at = "" if not isinstance(revision, str) or "@" in found.model else f"@{revision}"
    return f"{found.model}{at}"


def _unresolved(found: Deployment) -> str:
    """Name an argument that moves memory and has no value, or flags that nobody sees; empty where all is known."""
    names = NAMES[found.engine]
    for name, argument in found.arguments.items():
        if argument.unknown and (name in names or name in _NESTED):
            return argument.unknown[0]
    if found.hidden_flags:
        return next((name for name in found.unresolved if name.startswith(("$", "{{"))), found.unresolved[0])
    return ""
