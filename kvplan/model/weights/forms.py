"""The forms in which a matrix is stored: as it is, or quantised. A closed sum; expand.py turns them into tensors."""

from __future__ import annotations

from typing import Literal, TypeAlias

from kvplan.model.weights.tensors import MODEL
from kvplan.record import dataclass

Scale: TypeAlias = Literal["tensor", "channel"] | tuple[int, int]
MX_RUN = 32


@dataclass(frozen=True, slots=True)
class Plain:
    """Not quantised: in the model's dtype, or in one of its own."""

    dtype: str = MODEL


@dataclass(frozen=True, slots=True)
class Fp8:
    """8-bit floats with a scale a tensor, an output channel, or a block of (rows, columns).

    `inputs`: a scale for the activations is stored too. `upper_bound`: FBGEMM's bound for them, one a layer.
    """

    scale: Scale
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

    GPTQ and AWQ store inputs x outputs and always keep room for zero points; compressed-tensors stores outputs x
    inputs, and so does wna16, in which packing.py gives experts to a kernel beside Marlin's. `tile`: what a rank's
    share of an expert's width must be whole runs of for Marlin's, beside whole groups.
    """

    bits: int
    group: int | None
    layout: Literal["gptq", "awq", "compressed-tensors", "wna16"]
    zero_points: bool = True
    tile: int = 1


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
