"""The engines by id (`vllm`, `vllm@0.33`), each a function from a model, flags, a card and a draft to a Plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from kvplan.engine.names import ENGINES, engine_id
from kvplan.errors import UnknownEngine, near

if TYPE_CHECKING:
    from kvplan.engine.args import EngineArgs
    from kvplan.hardware import Gpu
    from kvplan.model.spec import ModelSpec
    from kvplan.planner import Plan

Planner: TypeAlias = "Callable[[ModelSpec, EngineArgs, Gpu | None, int, ModelSpec | None], Plan]"


def find_engine(name: str, *, local: bool = False) -> Planner:
    """Return the planner of `engine` or `engine@release`; raises UnknownEngine. Only the asked engine is imported.

    `local`: the planner may read local observations; engines without any have nothing to read.
    """
    engine, _, version = engine_id(name).partition("@")
    if engine not in ENGINES:
        hint = near(engine, ENGINES) or f"one of {', '.join(ENGINES)}"
        raise UnknownEngine(f"kvplan does not plan the engine {engine[:40]!r}", hint)
    package = f"kvplan.engine.{engine.replace('-', '_')}"
    releases, startup = import_module(f"{package}.releases"), import_module(f"{package}.startup")
    plan = getattr(startup, f"plan_{engine.replace('-', '_')}")
    observing = {"local": True} if local and engine in _OBSERVED else {}
    return partial(plan, release=releases.release(version or None), **observing)


_OBSERVED = frozenset({"vllm"})
