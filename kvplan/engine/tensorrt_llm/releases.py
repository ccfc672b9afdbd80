"""TensorRT-LLM's defaults by release: profiles/engines/trtllm.yaml as a record."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import lru_cache
from typing import Any

from kvplan.assets import PROFILES
from kvplan.errors import UnknownEngine
from kvplan.profile import load
from kvplan.record import dataclass

_VERSION = re.compile(r"v?([0-9]{1,3})\.([0-9]{1,3})(?:\.[0-9]{1,3})?(?:rc[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Release:
    """One release's defaults; `stands_for` is the asked release where its code is not known. MiB: figure, low, high."""

    version: str
    stands_for: str | None
    free_gpu_memory_fraction: float
    tokens_per_block: int
    max_batch_size: int
    max_num_tokens: int
    cuda_graphs_mib: tuple[int, int, int]
    non_torch_mib: tuple[int, int, int]


@lru_cache(maxsize=8)
def release(version: str | None) -> Release:
    """Return a release, None is the newest; raises UnknownEngine for what is no version."""
    profile = load(PROFILES / "engines" / "trtllm.yaml")
    wanted = version or profile["newest"]
    found = _VERSION.fullmatch(wanted)
    if found is None:
        raise UnknownEngine(
            f"{wanted[:40]!r} is no release of TensorRT-LLM", f"kvplan knows {profile['oldest']} to {profile['newest']}"
        )
    number = (int(found[1]), int(found[2]))
    planned = min(max(number, _number(profile["oldest"])), _number(profile["newest"]))
    values = {field.name: _at(profile[field.name], planned) for field in fields(Release) if field.name not in _OWN}
    values |= {name: tuple(values[name]) for name in ("cuda_graphs_mib", "non_torch_mib")}
    return Release(version=".".join(map(str, planned)), stands_for=None if planned == number else wanted, **values)


_OWN = frozenset({"version", "stands_for"})


def _number(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def _at(section: dict[str, Any], number: tuple[int, int]) -> Any:
    """Return a section's value for a release: that of the last key that is not later."""
    return section[[key for key in section if _number(key) <= number][-1]]
