"""The forms in which a matrix is stored: as it is, or quantised, each with its scales.

A closed sum. `expand` turns a matrix in a form into the tensors of a checkpoint and of the engine; shapes are those of
vLLM 0.33.0's create_weights methods (model_executor/layers/quantization), names those of the checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, assert_never

from kvplan.model.weights.tensors import MODEL, Linear, Role, Tensor


@dataclass(frozen=True, slots=True)
class Plain:
    """Not quantised: in the model's dtype, or in one of its own."""

    dtype: str = MODEL


@dataclass(frozen=True, slots=True)
class Fp8:
    """8-bit floats with a scale a tensor, an output channel, or a block of (rows, columns).

    `inputs`: a scale for the activations is stored too. `upper_bound`: FBGEMM's bound for them, one a layer.
    """

    scale: Literal["tensor", "channel"] | tuple[int, int]
    inputs: bool = False
    scale_dtype: str = "float32"
    scale_name: str = "weight_scale"
    upper_bound: bool = False


@dataclass(frozen=True, slots=True)
class Int8:
    """8-bit integers with a scale a tensor or an output channel."""

    scale: Literal["tensor", "channel"]
    inputs: bool = False


@dataclass(frozen=True, slots=True)
class Packed:
    """Integers of `bits` bits packed into 32-bit words, a scale a `group` of inputs (None: a row).

    GPTQ and AWQ store inputs x outputs and always keep room for zero points; compressed-tensors stores outputs x inputs.
    """

    bits: int
    group: int | None
    layout: Literal["gptq", "awq", "compressed-tensors"]
    zero_points: bool = True


@dataclass(frozen=True, slots=True)
class Nvfp4:
    """4-bit floats, two a byte, an 8-bit scale a `group` of inputs and a 32-bit one a tensor.

    `inputs`: a scale for the activations; MODEL: a deprecated one that the engine still makes room for, in its dtype.
    """

    group: int = 16
    inputs: str | None = "float32"
    names: Literal["modelopt", "compressed-tensors"] = "modelopt"


@dataclass(frozen=True, slots=True)
class Microscaled:
    """MXFP8 and MXFP4: floats of `bits` bits with one power of two (a byte) a run of 32 inputs.

    `tile`: an expert's width on each rank and the hidden size are rounded up to these by the kernel that will run it.
    """

    bits: Literal[4, 8]
    names: tuple[str, str] = ("weight", "weight_scale")
    tile: tuple[int, int] = (1, 1)


Form: TypeAlias = Plain | Fp8 | Int8 | Packed | Nvfp4 | Microscaled
MX_RUN = 32


def expand(matrix: Linear, form: Form) -> Iterator[Tensor]:
    """Yield the tensors of one matrix in one form, its bias last."""
    match form:
        case Plain():
            yield _matrix(matrix, "weight", form.dtype)
        case Fp8():
            yield _matrix(matrix, "weight", "float8_e4m3fn")
            yield from _scales(matrix, form.scale, form.scale_name, form.scale_dtype)
            if form.inputs:
                yield _scalar(matrix, "input_scale", once=True)
            if form.upper_bound and matrix.leads:
                yield replace(_scalar(matrix, "input_scale_ub"), holder="engine")
        case Int8():
            yield _matrix(matrix, "weight", "int8")
            yield from _scales(matrix, form.scale, "weight_scale", "float32")
            if form.inputs:
                one = _scalar(matrix, "input_scale")
                yield one if matrix.leads else replace(one, holder="checkpoint")
        case Packed():
            yield from _packed(matrix, form)
        case Nvfp4():
            yield from _nvfp4(matrix, form)
        case Microscaled():
            weight, scale = form.names
            matrix = _tiled(matrix, *form.tile)  # noqa: PLW2901
            yield _matrix(matrix, weight, "uint8" if form.bits == 4 else "float8_e4m3fn", per=(1, 8 // form.bits))
            yield _matrix(matrix, scale, "uint8", per=(1, MX_RUN), whole=True)
        case _:
            assert_never(form)
    if matrix.bias:
        yield _bias(matrix)


# -- pieces -----------------------------------------------------------------------------------------------------------


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
        fits_share=fits,
        layers=matrix.layers,
        stage=matrix.stage,
        each=matrix.each,
    )


def _tiled(matrix: Linear, width: int, hidden: int) -> Linear:
    """Round an expert's matrix up to the tiles of a kernel: its width on each rank, the hidden size as it is."""
    if matrix.kind != "experts":
        return matrix
    if _axis(matrix) == 0:
        return replace(matrix, multiple=width, columns=hidden * -(-matrix.columns // hidden))
    return replace(matrix, multiple=width, rows=hidden * -(-matrix.rows // hidden))


def _axis(matrix: Linear) -> int:
    return 1 if matrix.role is Role.ROW else matrix.axis


def _scales(
    matrix: Linear, scale: Literal["tensor", "channel"] | tuple[int, int], name: str, dtype: str
) -> Iterator[Tensor]:
    if scale == "tensor":
        yield _scalar(matrix, name)
    elif scale == "channel":
        yield _channel(matrix, name, dtype)
    else:
        yield _matrix(matrix, name, dtype, per=scale, fits=matrix.kind == "experts")


def _channel(matrix: Linear, name: str, dtype: str) -> Tensor:
    """Return one entry an output: whole on every rank where the inputs are cut."""
    cut = _axis(matrix) == 0
    found = _matrix(matrix, name, dtype)
    role = matrix.role if cut or matrix.role is Role.EXPERT else Role.REPLICATED
    return replace(found, shape=(matrix.rows, 1), role=role, axis=0 if cut else None)


def _scalar(matrix: Linear, name: str, dtype: str = "float32", *, once: bool = False) -> Tensor:
    """Return one element; the engine holds those of gate and up of an expert as one where `once`."""
    expert = matrix.role is Role.EXPERT
    return Tensor(
        name=f"{matrix.name}.{name}",
        shape=(),
        role=Role.EXPERT if expert else Role.REPLICATED,
        dtype=dtype,
        axis=None,
        layers=matrix.layers,
        stage=matrix.stage,
        each=matrix.each,
        holder="checkpoint" if once and expert and not matrix.leads else "both",
    )


def _bias(matrix: Linear) -> Tensor:
    """Return the bias: cut with the outputs; whole where the inputs are cut."""
    cut = _axis(matrix) == 0
    role = matrix.role if cut or matrix.role is Role.EXPERT else Role.REPLICATED
    found = _matrix(matrix, "bias", MODEL)
    return replace(found, shape=(matrix.rows,), role=role, axis=0 if cut else None)


# -- the 4-bit forms --------------------------------------------------------------------------------------------------


def _packed(matrix: Linear, form: Packed) -> Iterator[Tensor]:
    word = 32 // form.bits
    match form.layout:
        case "compressed-tensors":
            yield _matrix(matrix, "weight_packed", "int32", per=(1, word))
            yield _by_group(matrix, "weight_scale", MODEL, form.group)
            if form.zero_points:
                yield _by_group(matrix, "weight_zero_point", "int32", form.group, word=word)
            # the original extents, which the engine keeps once for merged neighbours
            pair = replace(_scalar(matrix, "weight_shape", "int64"), shape=(2,))
            if matrix.role is Role.EXPERT:
                pair = replace(pair, dtype=MODEL)
            yield pair if matrix.leads else replace(pair, holder="checkpoint")
        case "awq":
            yield _matrix(matrix, "qweight", "int32", per=(word, 1), turned=True)
            yield _by_group(matrix, "scales", MODEL, form.group, turned=True)
            yield _by_group(matrix, "qzeros", "int32", form.group, word=word, turned=True)
        case "gptq":
            yield _matrix(matrix, "qweight", "int32", per=(1, word), turned=True)
            yield _by_group(matrix, "scales", MODEL, form.group, turned=True)
            yield _by_group(matrix, "qzeros", "int32", form.group, word=word, turned=True)
            # the order of activations; vLLM 0.33 refuses checkpoints that need it and drops the rest
            yield Tensor(
                f"{matrix.name}.g_idx", (matrix.columns,), dtype="int32", layers=matrix.layers, each=matrix.each,
                holder="checkpoint",
            )  # fmt: skip
            if matrix.kind == "experts":  # room for biases that some checkpoints bring, which the engine frees later
                yield replace(_bias(matrix), holder="engine")
        case _:
            assert_never(form.layout)


def _by_group(
    matrix: Linear, name: str, dtype: str, group: int | None, *, word: int = 1, turned: bool = False
) -> Tensor:
    """Return one entry a group of inputs, of `word` outputs each; a group of all inputs is whole on every rank."""
    if group is None:
        return replace(_channel(matrix, name, dtype), per=() if word == 1 else (word, 1))
    return _matrix(matrix, name, dtype, per=(word, group), turned=turned, whole=True)


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
