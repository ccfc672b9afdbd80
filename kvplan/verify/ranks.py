"""The ranks of a TP or PP group, one process each, started by torchrun; alone, a group of one.

NCCL on GPUs, so that its buffers are on the card as they are under an engine; gloo on a CPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from kvplan.errors import UsageError

PATIENCE = timedelta(minutes=5)  # longer than ranks are ever apart: filling 140 GB takes seconds


class RankLost(Exception):
    """Another rank is gone or does not answer."""


class Group(Protocol):
    """What ranks say to each other."""

    def least(self, value: int) -> int:
        """Return the smallest value that any rank brings."""

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in order."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which rank this process is, of how many; `local` is its GPU on this machine."""

    rank: int
    size: int
    local: int


def place() -> Place:
    """Return this process's place from torchrun's environment; raises UsageError for one that makes no sense."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    given = {name: os.environ.get(name, "") for name in names}
    if not given["WORLD_SIZE"]:
        return Place(0, 1, 0)
    if not all(value.isascii() and value.isdigit() and len(value) <= 6 for value in given.values()):
        raise UsageError(f"{', '.join(names)} are not all numbers", "torchrun sets them; unset them to verify one rank")
    rank, size, local = (int(given[name]) for name in names)
    if not rank < size:
        raise UsageError(f"RANK {rank} of WORLD_SIZE {size}", "torchrun sets them; unset them to verify one rank")
    return Place(rank, size, local)


@contextmanager
def join(*, on_gpu: bool) -> Iterator[Group]:
    """Join the other ranks, if there are any, and leave them at the end."""
    here = place()
    if here.size == 1:
        yield _Alone()
        return
    import torch  # noqa: PLC0415  # the extra `gpu`, and only where there are ranks
    import torch.distributed as dist  # noqa: PLC0415

    device = torch.device("cuda", here.local) if on_gpu else torch.device("cpu")
    try:
        dist.init_process_group("nccl" if on_gpu else "gloo", timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise RankLost(f"the ranks do not find each other: {error}") from error
    try:
        yield _Several(dist, torch, device)
    finally:
        dist.destroy_process_group()


@dataclass(frozen=True, slots=True)
class _Alone:
    def least(self, value: int) -> int:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [value]


@dataclass(frozen=True, slots=True)
class _Several:
    dist: Any
    torch: Any
    device: Any

    def least(self, value: int) -> int:
        try:
            held = self.torch.tensor([value], dtype=self.torch.int64, device=self.device)
            self.dist.all_reduce(held, op=self.dist.ReduceOp.MIN)
            return int(held.item())
        except RuntimeError as error:
            raise RankLost(f"another rank is gone: {error}") from error

    def gather(self, value: Any) -> list[Any]:
        try:
            found: list[Any] = [None] * self.dist.get_world_size()
            self.dist.all_gather_object(found, value)
        except RuntimeError as error:
            raise RankLost(f"another rank is gone: {error}") from error
        return found
