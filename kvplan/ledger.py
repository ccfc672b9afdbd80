"""The ledger: every byte of the budget is a named line with an interval, a basis and a reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from kvplan.record import dataclass

Basis: TypeAlias = Literal["exact", "measured", "modelled", "given"]


@dataclass(frozen=True, slots=True)
class Line:
    """`bytes` of one rank's memory, between `low` and `high`.

    `basis` is `exact` (arithmetic on the config), `measured` (a profile with a source), `modelled` (a fit, whose
    residual is the interval) or `given` (the user said so); `why` says where the figure comes from.
    """

    name: str
    bytes: int
    low: int
    high: int
    basis: Basis
    why: str

    @classmethod
    def certain(cls, name: str, size: int, basis: Basis, why: str) -> Line:
        """Return a line without an interval."""
        return cls(name, size, size, size, basis, why)


def total(lines: Sequence[Line]) -> int:
    """Return the sum of the lines, in bytes."""
    return sum(line.bytes for line in lines)
