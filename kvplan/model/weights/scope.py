"""Where a tensor lies: a name's beginning, the layers that have one, and the records that are made there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvplan.model.weights.tensors import Linear, Part, Role, Stage, Tensor
from kvplan.record import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """A place in the model; `prefix` ends with a dot, or is empty."""

    prefix: str = ""
    layers: tuple[int, ...] | None = None
    stage: Stage = Stage.EVERY
    each: int = 1

    def under(self, name: str) -> Scope:
        """Return the place one name further in."""
        return Scope(f"{self.prefix}{name}.", self.layers, self.stage, self.each)

    def of(self, layers: Iterable[int]) -> Scope:
        """Return the same place for these layers only."""
        return Scope(self.prefix, tuple(layers), self.stage, self.each)

    def copies(self, each: int) -> Scope:
        """Return the same place with so many of everything in each layer: the experts."""
        return Scope(self.prefix, self.layers, self.stage, each)

    def tensor(self, name: str, *shape: int, **more: Any) -> Tensor:
        """Return a tensor that is stored as it is, whatever the quantisation."""
        return Tensor(
            f"{self.prefix}{name}", shape, layers=self.layers, stage=self.stage, each=self.each, **more
        )  # fmt: skip

    def linear(self, name: str, rows: int, columns: int, role: Role = Role.COLUMN, **more: Any) -> Linear:
        """Return a matrix that a quantisation method may store in another form."""
        return Linear(
            f"{self.prefix}{name}", rows, columns, role, layers=self.layers, stage=self.stage, each=self.each, **more
        )  # fmt: skip

    def norm(self, name: str, width: int, *, bias: bool = False) -> list[Part]:
        """Return a normalisation's weight, and its bias where it has one."""
        found: list[Part] = [self.tensor(f"{name}.weight", width)]
        return [*found, self.tensor(f"{name}.bias", width)] if bias else found

    def norms(self, width: int, *names: str, bias: bool = False) -> list[Part]:
        """Return several normalisations of one width."""
        return [part for name in names for part in self.norm(name, width, bias=bias)]

    def table(self, name: str, *shape: int, dtype: str = "float32") -> Tensor:
        """Return a buffer that the engine computes: on every rank, in no checkpoint."""
        return self.tensor(name, *shape, role=Role.TABLE, dtype=dtype, axis=None, holder="engine")
