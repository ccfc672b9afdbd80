"""How wide the routed experts of a model are: the axis along which ranks without expert parallelism share them."""

from __future__ import annotations

from functools import lru_cache

from kvplan.errors import InvalidConfig
from kvplan.model.spec import ModelSpec
from kvplan.model.weights.inventory import parts_of
from kvplan.model.weights.tensors import Linear, Role
from kvplan.same import Same


def expert_widths(model: ModelSpec) -> tuple[int, ...]:
    """Return the different widths of a model's routed experts: by its weight rule, else by its config's own field."""
    return _widths(Same(model)) if model.num_experts else ()


@lru_cache(maxsize=64)
def _widths(model: Same[ModelSpec]) -> tuple[int, ...]:
    try:
        parts = parts_of(model.it)
    except InvalidConfig:  # what a rule lacks is told where the weights are
        parts = None
    if parts is None:
        width = model.it.moe_intermediate_size
        return () if width is None else (width,)
    experts = [part for part in parts if isinstance(part, Linear) and part.role is Role.EXPERT]
    return tuple(sorted({matrix.columns if matrix.axis else matrix.rows for matrix in experts}))
