"""The releases of vLLM that kvplan knows, from profiles/engines/vllm.yaml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kvplan.assets import PROFILES
from kvplan.errors import UnknownEngine
from kvplan.profile import load
from kvplan.units import GIB

_ENGINES = PROFILES / "engines"


@dataclass(frozen=True, slots=True)
class Tier:
    """Default batch sizes of `vllm serve` on cards of at least `min_memory_bytes`."""

    min_memory_bytes: int
    not_named: str | None
    not_capability: tuple[int, int] | None
    max_num_batched_tokens: int
    max_num_seqs: int


@dataclass(frozen=True, slots=True)
class Release:
    """One release: its name, its defaults and its registry of architectures."""

    version: str
    gpu_memory_utilization: float
    tiers: tuple[Tier, ...]
    kv_cache_dtypes: tuple[str, ...]
    quantization_methods: tuple[str, ...]

    def tier(self, name: str, memory_bytes: int, capability: tuple[int, int]) -> Tier:
        """Return the first tier that this card is on."""
        for tier in self.tiers:
            named = tier.not_named is not None and tier.not_named in name.lower()
            if memory_bytes >= tier.min_memory_bytes and not named and tier.not_capability != capability:
                return tier
        return self.tiers[-1]


@lru_cache(maxsize=4)
def release(version: str | None) -> Release:
    """Return a known release: `0.33` and `0.33.0` are one; None is the newest. Raises UnknownEngine."""
    profile = _profile()
    wanted = version or profile["newest"]
    short = ".".join(wanted.split(".")[:2])
    if not re.fullmatch(r"[0-9]+(\.[0-9]+){1,2}", wanted) or short not in profile:
        known = ", ".join(key for key in profile if key[0].isdigit())
        raise UnknownEngine(f"kvplan does not know vLLM {wanted[:40]!r}", f"known: {known}")
    facts = profile[short]
    tiers = tuple(
        Tier(
            min_memory_bytes=row["min_memory_gib"] * GIB,
            not_named=row.get("not_named"),
            not_capability=tuple(row["not_capability"]) if "not_capability" in row else None,  # type: ignore[arg-type]
            max_num_batched_tokens=row["max_num_batched_tokens"],
            max_num_seqs=row["max_num_seqs"],
        )
        for row in facts["tiers"]
    )
    full = wanted if wanted.count(".") == 2 else f"{wanted}.0"
    return Release(
        version=full,
        gpu_memory_utilization=facts["gpu_memory_utilization"],
        tiers=tiers,
        kv_cache_dtypes=tuple(facts["kv_cache_dtypes"]),
        quantization_methods=tuple(facts["quantization_methods"]),
    )


@lru_cache(maxsize=1)
def _profile() -> Any:
    return load(_ENGINES / "vllm.yaml")


@lru_cache(maxsize=1)
def registry() -> Any:
    """Return the architectures of the newest release: `served` (how), `removed` (since when), `plugin`."""
    return load(_ENGINES / "vllm.architectures.yaml")
