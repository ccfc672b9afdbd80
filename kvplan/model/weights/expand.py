"""From a matrix in a form to the tensors of a checkpoint and of the engine.

Shapes are those of vLLM 0.33.0's create_weights methods (model_executor/layers/quantization), names those of the
checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from kvplan.model.weights.forms import MX_RUN, Form, Fp8, Int8, Microscaled, Nvfp4, Packed, Plain, Scale
from kvplan.model.weights.tensors import MODEL, Linear, Role, Tensor


def expand(matrix: Linear, form: Form) -> Iterator[Tensor]:
    """Yield the tensors of one matrix in one form, its bias last."""
    match form:
        case Plain():
            yield _matrix(matrix, "weight", form.dtype)
        case Fp8():
            yield from _fp8(matrix, form)
        case Int8():
            yield from _int8(matrix, form)
        case Packed():
            yield from _packed(matrix, form)
        case Nvfp4():
            yield from _nvfp4(matrix, form)
        case Microscaled():
            matrix = _tiled(matrix, *form.tile)
            yield from _microscaled(matrix, form)
        case _:
            assert_never(form)
    if matrix.bias:
        yield _bias(matrix)


# -- the forms --------------------------------------------------------------------------------------------------------


def _fp8(matrix: Linear, form: Fp8) -> Iterator[Tensor]:
    yield _matrix(matrix, "weight", "float8_e4m3fn")
    yield _scale(matrix, form.scale, form.scale_name, form.scale_dtype)
    if form.inputs:
        one = _scalar(matrix, "input_scale")
        # gate and up of an expert share the engine's; other merged neighbours keep one each
        yield one if matrix.leads or matrix.role is not Role.EXPERT else replace(one, holder="checkpoint")
    if form.upper_bound and matrix.leads:
        yield replace(_scalar(matrix, "input_scale_ub"), holder="engine")


def _int8(matrix: Linear, form: Int8) -> Iterator[Tensor]:
    yield _matrix(matrix, "weight", "int8")
    yield _scale(matrix, form.scale, "weight_scale", "float32")
    if form.inputs:
        one = _scalar(matrix, "input_scale")
        yield one if matrix.leads else replace(one, holder="checkpoint")


def _packed(matrix: Linear, form: Packed) -> Iterator[Tensor]:
    word, group = 32 // form.bits, form.group
    match form.layout:
        case "compressed-tensors":
            yield _matrix(matrix, "weight_packed", "int32", per=(1, word))
            yield _by_group(matrix, "weight_scale", MODEL, group)
            if form.zero_points:
                yield _by_group(matrix, "weight_zero_point", "int32", group, word=word)
            # the original extents, which the engine keeps once for merged neighbours
            pair = replace(_scalar(matrix, "weight_shape", "int64"), shape=(2,))
            if matrix.role is Role.EXPERT:
                pair = replace(pair, dtype=MODEL)
            yield pair if matrix.leads else replace(pair, holder="checkpoint")
        case "awq":
            yield _matrix(matrix, "qweight", "int32", per=(word, 1), turned=True)
            yield from _scales_and_zeros(matrix, group, word)
        case "gptq":
            yield _matrix(matrix, "qweight", "int32", per=(1, word), turned=True)
            yield from _scales_and_zeros(matrix, group, word)
            # the order of activations; vLLM 0.33 refuses checkpoints that need it and drops the rest
            order = replace(_scalar(matrix, "g_idx", "int32"), shape=(matrix.columns,))
            yield replace(order, holder="checkpoint")
            if matrix.kind == "experts":  # room for biases that some checkpoints bring, which the engine frees later
                yield replace(_bias(matrix), holder="engine")
        case "wna16":
            yield _matrix(matrix, "qweight", "uint8", per=(1, 8 // form.bits))
            yield _by_group(matrix, "scales", MODEL, group)
            if form.zero_points:
                yield _by_group(matrix, "qzeros", "uint8", group, word=8 // form.bits)
        case _:
            assert_never(form.layout)


def _nvfp4(matrix: Linear, form: Nvfp4) -> Iterator[Tensor]:
    weight, tensor_scale, inputs = {
        "modelopt": ("weight", "weight_scale_2", "input_scale"),
        "compressed-tensors": ("weight_packed", "weight_global_scale", "input_global_scale"),
    }[form.names]
    yield _matrix(matrix, weight, "uint8", per=(1, 2))
    yield _matrix(matrix, "weight_scale", "float8_e4m3fn", per=(1, form.group), whole=True)
    yield _scalar(matrix, tensor_scale)
    expert = matrix.role is Role.EXPERT
    if form.inputs is not None or expert:  # experts have room for it even where activations stay as they are
        yield _scalar(matrix, inputs, "float32" if expert else form.inputs or MODEL)


def _microscaled(matrix: Linear, form: Microscaled) -> Iterator[Tensor]:
    weight, scale = form.names
    yield _matrix(matrix, weight, "uint8" if form.bits == 4 else "float8_e4m3fn", per=(1, 8 // form.bits))
    yield _matrix(matrix, scale, "uint8", per=(1, MX_RUN), whole=True)


def _tiled(matrix: Linear, width: int, hidden: int) -> Linear:
    """Round an expert's matrix up to the tiles of a kernel: its width on each rank, the hidden size as it is."""
    if matrix.kind != "experts":
        return matrix
    if _axis(matrix) == 0:
        return replace(matrix, multiple=width, columns=hidden * -(-matrix.columns // hidden))
    return replace(matrix, multiple=width, rows=hidden * -(-matrix.rows // hidden))


# -- pieces -----------------------------------------------------------------------------------------------------------


def _axis(matrix: Linear) -> int:
    return 1 if matrix.role is Role.ROW else matrix.axis


def _matrix(
    matrix: Linear,
    suffix: str,
    dtype: str,
    *,
    per: tuple[int, int] = (1, 1),
    turned: bool = False,
    whole: bool = False,
    fits: bool = False,
) -> Tensor:
    """Return a tensor with one entry for each `per` elements of the matrix; `turned`: stored inputs x outputs."""
    axis = _axis(matrix)
    shape, steps = (matrix.rows, matrix.columns), per
    if turned:
        shape, steps, axis = shape[::-1], steps[::-1], 1 - axis
    return Tensor(
        name=f"{matrix.name}.{suffix}",
        shape=shape,
        role=matrix.role,
        dtype=dtype,
        axis=axis,
        heads=matrix.heads,
        per=() if steps == (1, 1) else steps,
        whole_groups=whole,
        multiple=matrix.multiple,
        least=matrix.least,
        fits_share=fits,
        layers=matrix.layers,
        stage=matrix.stage,
        each=matrix.each,
    )


def _scalar(matrix: Linear, name: str, dtype: str = "float32") -> Tensor:
    """Return one element, whole on every rank but for those of experts, which stay with their expert."""
    return Tensor(
        name=f"{matrix.name}.{name}",
        shape=(),
        role=Role.EXPERT if matrix.role is Role.EXPERT else Role.REPLICATED,
        dtype=dtype,
        axis=None,
        layers=matrix.layers,
        stage=matrix.stage,
        each=matrix.each,
    )


def _scale(matrix: Linear, scale: Scale, name: str, dtype: str) -> Tensor:
    if scale == "tensor":
        return _scalar(matrix, name)
    if scale == "channel":
        return _channel(matrix, name, dtype)
    return _matrix(matrix, name, dtype, per=scale, fits=matrix.kind == "experts")


def _channel(matrix: Linear, name: str, dtype: str) -> Tensor:
    """Return one entry an output: whole on every rank where the inputs are cut."""
    cut = _axis(matrix) == 0
    role = matrix.role if cut or matrix.role is Role.EXPERT else Role.REPLICATED
    return replace(_matrix(matrix, name, dtype), shape=(matrix.rows, 1), role=role, axis=0 if cut else None)


def _bias(matrix: Linear) -> Tensor:
    return replace(_channel(matrix, "bias", MODEL), shape=(matrix.rows,))


def _scales_and_zeros(matrix: Linear, group: int | None, word: int) -> Iterator[Tensor]:
    yield _by_group(matrix, "scales", MODEL, group, turned=True)
    yield _by_group(matrix, "qzeros", "int32", group, word=word, turned=True)


def _by_group(
    matrix: Linear, name: str, dtype: str, group: int | None, *, word: int = 1, turned: bool = False
) -> Tensor:
    """Return one entry a group of inputs, of `word` outputs each; a group of all inputs is whole on every rank."""
    if group is None:
        return replace(_channel(matrix, name, dtype), per=() if word == 1 else (word, 1))
    return _matrix(matrix, name, dtype, per=(word, group), turned=turned, whole=True)
