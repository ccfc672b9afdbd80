"""Where the ranks' shares of the quantised matrices would cut a block or a group of one scale.

    group of a row-parallel matrix   whole groups of inputs on a rank (AWQ, compressed-tensors; GPTQ's kernels cut them)
    block of FP8                     whole blocks of inputs of a row-parallel matrix, or outputs of a column-parallel
    experts                          their width on a rank: whole groups, or whole blocks where none finer is taken
    NVFP4                            ModelOpt's takes 16 inputs together

Replicated matrices and whole experts (expert parallelism) are never cut. Source: vLLM 0.33.0, layers/quantization
(verify_group_size_divides_partition, validate_fp8_block_shape, validate_fp8_block_shape_moe, the kernels'
can_implement) and layers/linear.py, which lets FP8's own method off where it merges several outputs into one matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import gcd

from kvplan.errors import InvalidConfig
from kvplan.model.spec import ModelSpec
from kvplan.model.weights.forms import Form, Fp8, Nvfp4, Packed
from kvplan.model.weights.inventory import forms_of, parts_of, scheme_for
from kvplan.model.weights.placement import SMALLEST_BLOCK, Ranks
from kvplan.model.weights.schemes.scheme import HOPPER, Capability
from kvplan.model.weights.tensors import Linear, Role
from kvplan.record import dataclass
from kvplan.same import Same

_NVFP4_RUN = 16


@dataclass(frozen=True, slots=True)
class Cut:
    """A matrix of which a rank would hold `size` inputs or outputs, of which `unit` belong together."""

    name: str
    size: int
    unit: int
    expert: bool = False


@dataclass(frozen=True, slots=True)
class _Layer:
    """One matrix of the engine: neighbours that it merges are `parts` of it."""

    parts: tuple[Linear, ...]
    form: Form


def first_cut(
    model: ModelSpec,
    ranks: Ranks,
    *,
    asked: str | None = None,
    capability: Capability = HOPPER,
    group_experts: bool = True,
) -> Cut | None:
    """Return the first matrix that the ranks would cut through a block or group, or None.

    `group_experts`: packed experts of compressed-tensors are checked too.
    """
    method = model.quantization.method if model.quantization is not None else ""
    for layer in _layers(Same(model), asked, capability):
        whole = "shared_expert" in layer.parts[0].name and ranks.expert_parallel and ranks.data > 1
        if whole:  # with expert parallelism over data-parallel ranks each keeps its shared experts whole
            continue
        found = _cut(layer, ranks, method, group_experts=group_experts)
        if found is not None:
            return found
    return None


@lru_cache(maxsize=64)
def _layers(model: Same[ModelSpec], asked: str | None, capability: Capability) -> tuple[_Layer, ...]:
    """Return the matrices that have blocks or groups, each form of each once."""
    try:
        parts, scheme = parts_of(model.it), scheme_for(model.it, asked, capability)
    except InvalidConfig:  # what a rule lacks is told where the weights are
        return ()
    if parts is None or not scheme.certain:
        return ()
    merged: list[list[Linear]] = []
    for part in parts:
        if isinstance(part, Linear):
            if part.leads or not merged:
                merged.append([part])
            else:
                merged[-1].append(part)
    found = dict.fromkeys(
        _Layer(tuple(group), form)
        for group in merged
        for form, _ in forms_of(group[0], scheme)
        if isinstance(form, Nvfp4) or (isinstance(form, Packed) and form.group) or _blocks(form)
    )
    return tuple(found)


def _blocks(form: Form) -> bool:
    return isinstance(form, Fp8) and isinstance(form.scale, tuple)


def _cut(layer: _Layer, ranks: Ranks, method: str, *, group_experts: bool) -> Cut | None:
    first = layer.parts[0]
    if first.role is Role.EXPERT:
        return None if ranks.expert_parallel else _cut_expert(layer, ranks.experts, method, group_experts=group_experts)
    if ranks.tensor == 1 or first.role not in (Role.COLUMN, Role.KV, Role.ROW):
        return None
    if first.role is Role.ROW:
        sizes = [_share(first, first.columns, ranks.tensor)]
    else:
        sizes = list(_outputs(layer.parts, ranks.tensor))
    form = layer.form
    match form:
        case Packed(group=int(unit)) if first.role is Role.ROW and unit < first.columns:
            if form.layout == "gptq" or method == "auto-round":
                return None  # the last kernel on the engine's list, Humming's, takes them as they are
        case Nvfp4(names="modelopt") if first.role is Role.ROW:
            unit = _NVFP4_RUN
        case Fp8(scale=(rows, columns)) if first.role is Role.ROW:
            unit = columns
        case Fp8(scale=(rows, _)) if method != "fp8" or len(sizes) == 1:
            unit = rows
        case _:
            return None
    return next((Cut(first.name, size, unit) for size in sizes if size % unit), None)


def _share(matrix: Linear, size: int, ranks: int) -> int:
    return matrix.multiple * -(-(size // ranks) // matrix.multiple)


def _outputs(parts: tuple[Linear, ...], tensor: int) -> Iterator[int]:
    """Yield a rank's outputs of each matrix that was merged; of all at once where the engine builds them as one."""
    sizes = [
        part.rows // part.heads * max(1, part.heads // tensor) if part.heads else _share(part, part.rows, tensor)
        for part in parts
    ]
    if parts[0].name.endswith("in_proj") and any(part.heads % tensor for part in parts):
        yield sum(sizes)  # Mamba-2 with fewer groups than ranks
    else:
        yield from sizes


def _cut_expert(layer: _Layer, ranks: int, method: str, *, group_experts: bool) -> Cut | None:
    first, form = layer.parts[0], layer.form
    width, other = (first.columns, first.rows) if first.axis else (first.rows, first.columns)
    if width % ranks:  # which no quantisation is the cause of
        return None
    size = _share(first, width, ranks)
    match form:
        case Packed(layout="compressed-tensors", group=int(unit)) if group_experts:
            return Cut(first.name, size, unit, expert=True) if size % unit else None
        case Packed(group=int(unit)):  # groups are halved until they fit
            found = unit
            while found >= SMALLEST_BLOCK and (size % found or other % found):
                found //= 2
            return Cut(first.name, size, unit, expert=True) if found < SMALLEST_BLOCK else None
        case Fp8(scale=(rows, columns)) if ranks > 1 and method in ("fp8", "compressed-tensors"):
            unit = rows if size % rows else columns
            finer = method == "fp8" and gcd(size, other, rows, columns) >= SMALLEST_BLOCK
            return Cut(first.name, size, unit, expert=True) if size % unit and not finer else None
    return None
