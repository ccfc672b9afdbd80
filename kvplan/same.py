"""A cache key for what holds dicts and so has no hash: equal to itself alone."""

from __future__ import annotations

from typing import Generic, TypeVar

from kvplan.record import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Same(Generic[T]):
    """`it` by identity. Records are never changed, so what was computed for this very one still holds."""

    it: T

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.it is self.it

    def __hash__(self) -> int:
        return id(self.it)
