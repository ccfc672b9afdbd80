"""How many requests a GPU holds at once, as the serving engine itself would answer, before a GPU is rented.

    import kvplan

    plan = kvplan.plan("meta-llama/Llama-3.1-8B", gpu="h100", max_model_len=8192)
    plan.kv.max_concurrency, plan.verdict, plan.to_dict()

The names below load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.errors import KvplanError, UnknownArchitecture
    from kvplan.hardware import Gpu, find_gpu
    from kvplan.ledger import Line
    from kvplan.model.spec import ModelSpec
    from kvplan.planner import Plan, load_model, plan

__version__ = "0.1.0"
__all__ = ["Gpu", "KvplanError", "Line", "ModelSpec", "Plan", "UnknownArchitecture", "find_gpu", "load_model", "plan"]
_HOMES = {
    "Gpu": "hardware",
    "KvplanError": "errors",
    "Line": "ledger",
    "ModelSpec": "model.spec",
    "Plan": "planner",
    "UnknownArchitecture": "errors",
    "find_gpu": "hardware",
    "load_model": "planner",
    "plan": "planner",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kvplan' has no attribute {name!r}")
    value = getattr(import_module(f"kvplan.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
