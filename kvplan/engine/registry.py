"""The engines by id (`vllm`, `vllm@0.33`), each a function from a model, flags, a card and a draft to a Plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kvplan.errors import UnknownEngine, near

if TYPE_CHECKING:
    from kvplan.engine.args import EngineArgs
    from kvplan.hardware import Gpu
    from kvplan.model.spec import ModelSpec
    from kvplan.planner import Plan

Planner: TypeAlias = "Callable[[ModelSpec, EngineArgs, Gpu | None, int, ModelSpec | None], Plan]"
ENGINES = ("vllm",)


def find_engine(name: str) -> Planner:
    """Return the planner of `engine` or `engine@release`; raises UnknownEngine."""
    engine, _, version = name.partition("@")
    if engine not in ENGINES:
        hint = near(engine, ENGINES) or f"one of {', '.join(ENGINES)}"
        raise UnknownEngine(f"kvplan does not plan the engine {engine[:40]!r}", hint)
    from functools import partial  # noqa: PLC0415  # only the asked engine is imported

    from kvplan.engine.vllm.releases import release  # noqa: PLC0415
    from kvplan.engine.vllm.startup import plan_vllm  # noqa: PLC0415

    return partial(plan_vllm, release=release(version or None))
