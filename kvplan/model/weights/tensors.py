"""What a checkpoint stores and an engine allocates, tensor by tensor, before anything is split over ranks.

An inventory is a list of these records. One record stands for all tensors of one name: `{}` in the name is the number
of a layer or of an expert. Sizes are of the whole model.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import prod
from typing import Literal, TypeAlias

from kvplan.record import dataclass


class Role(StrEnum):
    """How a tensor is laid over the ranks; placement.py says what each keeps."""

    VOCABULARY = "vocabulary"
    COLUMN = "column"
    KV = "kv"
    ROW = "row"
    EXPERT = "expert"
    REPLICATED = "replicated"
    TOWER = "tower"
    TABLE = "table"
    MAP = "map"


class Stage(StrEnum):
    """Which pipeline stages hold a tensor that belongs to no layer."""

    EVERY = "every"
    FIRST = "first"
    LAST = "last"
    ENDS = "ends"  # a tied embedding: the first stage looks up in it, the last projects with it


# `both`, or a difference between what is stored and what is allocated: tables are computed by the engine, and some
# stored tensors are merged or dropped while loading.
Holder: TypeAlias = Literal["both", "checkpoint", "engine"]

MODEL = "model"  # the dtype that the model is run in
ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e8m0fnu": 1,
    "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8, "complex64": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """All tensors of one name.

    `shape` counts elements of the weight that the tensor is about, `per` how many of them share one stored entry along
    each axis (empty: one): the scales of a 256 x 512 matrix in blocks of 128 have shape (256, 512) and per (128, 128).
    `whole_groups`: a last group that is not full is not stored. `axis` is the one that a split role cuts (None: this
    tensor of it has none, as a scale of one element); `heads` the KV heads along it; `multiple`: a rank's share is
    rounded up to this; `least`: an expert's, where ranks split it, is padded to no less; `fits_share`: blocks shrink
    until they divide a rank's share. `layers` are the decoder layers that have one (None: it belongs to no layer, and
    `stage` says where it is); `each` is how many each has (experts).
    """

    name: str
    shape: tuple[int, ...]
    role: Role = Role.REPLICATED
    dtype: str = MODEL
    axis: int | None = 0
    heads: int = 0
    per: tuple[int, ...] = ()
    whole_groups: bool = False
    multiple: int = 1
    least: int = 0
    fits_share: bool = False
    layers: tuple[int, ...] | None = None
    stage: Stage = Stage.EVERY
    each: int = 1
    holder: Holder = "both"

    @property
    def count(self) -> int:
        """The number of tensors that this record stands for."""
        return (1 if self.layers is None else len(self.layers)) * self.each

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape of one of them in the checkpoint."""
        return entries(self.shape, self.per, whole=self.whole_groups)

    def stored_bytes(self, model_dtype: str) -> int:
        """Bytes of all of them in the checkpoint."""
        return self.count * prod(self.stored_shape) * item_bytes(self.dtype, model_dtype)


def entries(shape: Sequence[int], per: Sequence[int], *, whole: bool) -> tuple[int, ...]:
    """Return the stored shape of so many elements with one entry for each `per` of them."""
    if not per:
        return tuple(shape)
    return tuple(size // step if whole else -(-size // step) for size, step in zip(shape, per, strict=True))


def item_bytes(dtype: str, model_dtype: str) -> int:
    """Return the bytes of one element; MODEL stands for `model_dtype`."""
    return ITEM_BYTES[model_dtype if dtype == MODEL else dtype]


Kind: TypeAlias = Literal["linear", "experts", "head", "embedding", "plain"]


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix of `rows` outputs and `columns` inputs that a quantisation method may store in another form.

    `kind` is what methods tell apart: they may skip the experts, quantise the output head, or both; `plain` is never
    quantised. `leads`: the engine merges some neighbours into one matrix (query, key and value; gate and up), which has
    one of certain small tensors: the first of them has it. The other fields are those of its tensors.
    """

    name: str
    rows: int
    columns: int
    role: Role = Role.COLUMN
    axis: int = 0
    heads: int = 0
    bias: bool = False
    kind: Kind = "linear"
    leads: bool = True
    multiple: int = 1
    least: int = 0
    layers: tuple[int, ...] | None = None
    stage: Stage = Stage.EVERY
    each: int = 1


Part: TypeAlias = Tensor | Linear
