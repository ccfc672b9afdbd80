"""The releases of vLLM that kvplan knows: what each does by default and how it counts, from profiles/engines/vllm.yaml.

The profile holds a section a setting, whose keys are the releases from which a value holds; a `Release` is one column
of it. A release before the oldest or after the newest is planned as the nearest known one, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from kvplan.assets import PROFILES
from kvplan.errors import UnknownEngine
from kvplan.profile import load
from kvplan.record import dataclass
from kvplan.units import GIB

_ENGINES = PROFILES / "engines"
_SUFFIX = r"(?:(?:\.?(?:rc|dev|post)|[ab+])[0-9A-Za-z.+]*)?"
_VERSION = re.compile(rf"v?([0-9]{{1,4}})\.([0-9]{{1,4}})(?:\.([0-9]{{1,4}}))?{_SUFFIX}", re.ASCII)

Usage: TypeAlias = Literal["server", "offline"]


@dataclass(frozen=True, slots=True)
class Tier:
    """Default batch sizes on cards of at least `min_memory_bytes`; the batch of tokens depends on the usage."""

    min_memory_bytes: int
    not_named: str | None
    not_capability: tuple[int, int] | None
    batched_tokens: Mapping[Usage, int]
    max_num_seqs: int


@dataclass(frozen=True, slots=True)
class Release:
    """One release. `version` is the one that is planned; `stands_for` the unknown one in whose place it is, if any.

    `named` says whether the user asked for it, or got the newest. The other fields are the sections of the profile,
    which says what each means.
    """

    version: str
    stands_for: str | None
    named: bool
    gpu_memory_utilization: float
    rounds_up: bool
    tiers: tuple[Tier, ...]
    async_scheduling: bool
    hybrid_prefix_caching: bool
    state_checkpoints: bool
    mla_state_alignment: int
    hybrid_manager: bool
    chunked_hybrid: bool
    group_ratio: float
    in_flight: Literal["one_batch", "concurrent_batches"]
    concurrency: Literal["tokens", "blocks"]
    tokens_printed: Literal["blocks", "concurrency"]
    needed: Literal["layers", "first_group", "groups"]
    null_block_held: bool
    override_checked: bool
    auto_length: bool
    yarn_stretches: bool
    longrope_starts_short: bool
    rope_scaling_flag: bool
    mla_block: Mapping[str, int]
    flashinfer_from: tuple[int, int]
    triton_fp8: Literal["taken", "uncompiled", "refused"]
    triton_mla_fp8: Literal["missing", "uncompiled", "refused"]
    runner_v2: Literal["none", "listed_unquantised", "listed", "listed_or_dense", "all"]
    runner_v2_listed: tuple[str, ...]
    budget: Literal["peak", "consumed"]
    snapshot: Literal["none", "before_nccl", "after_nccl"]
    graphs_charged_v1: bool
    graphs_charged_v2: bool
    graphs_to_1024: bool
    graph_fit: Mapping[str, Any]
    non_torch: Mapping[str, Any]
    non_torch_unified: Mapping[str, Any]
    nccl_before_snapshot: Mapping[str, Any]
    cold_start: Mapping[str, Any]
    pixels_kept: bool
    delta_workspace: bool
    calibration: str
    sampler_v1: int
    sampler_v2: int
    sampler_keeps_rows: bool
    expert_workspace_kept: bool
    mla_workspace_profiled: bool
    kv_cache_dtypes: tuple[str, ...]
    quantization_methods: tuple[str, ...]

    @property
    def number(self) -> tuple[int, ...]:
        """The planned version as integers."""
        return _number(self.version)

    def is_before(self, version: str) -> bool:
        """Whether this release is of an earlier minor version."""
        return self.number[:2] < _number(version)[:2]

    def is_after(self, version: str) -> bool:
        """Whether this release is of a later minor version."""
        return self.number[:2] > _number(version)[:2]

    @property
    def is_newest(self) -> bool:
        """Whether this is the newest release that kvplan knows, or stands for a later one."""
        return self.number[:2] == _number(_profile()["newest"])[:2]

    def tier(self, name: str, memory_bytes: int, capability: tuple[int, int]) -> Tier:
        """Return the first tier that this card is on."""
        for tier in self.tiers:
            named = tier.not_named is not None and tier.not_named in name.lower()
            if memory_bytes >= tier.min_memory_bytes and not named and tier.not_capability != capability:
                return tier
        return self.tiers[-1]

    def graphs_charged(self, *, v2: bool) -> bool:
        """Say whether the estimate of CUDA-graph memory is taken out of the pool."""
        return self.graphs_charged_v2 if v2 else self.graphs_charged_v1


@lru_cache(maxsize=8)
def release(version: str | None) -> Release:
    """Return a release: `0.33` and `0.33.0` are one, None is the newest; UnknownEngine for what is no version."""
    profile = _profile()
    wanted = version or profile["newest"]
    found = _VERSION.fullmatch(wanted)
    if found is None:
        raise UnknownEngine(
            f"{wanted[:40]!r} is no release of vLLM",
            f"kvplan knows {profile['oldest']} to {profile['newest'].removesuffix('.0')}",
        )
    number = tuple(int(part or 0) for part in found.groups())
    oldest, newest = _number(profile["oldest"]), _number(profile["newest"])
    planned = min(max(number, (*oldest, 0)), newest) if number[:2] != newest[:2] else number
    text = ".".join(map(str, planned))
    sections = (name for name in Release.__match_args__ if name not in _NOT_SECTIONS)
    values: dict[str, Any] = {name: _at(profile[name], planned) for name in sections}
    values["tiers"] = tuple(_tier(row) for row in values["tiers"])
    values |= {name: tuple(values[name]) for name in _LISTS}
    return Release(version=text, stands_for=None if planned == number else wanted, named=version is not None, **values)


_LISTS = ("runner_v2_listed", "kv_cache_dtypes", "quantization_methods", "flashinfer_from")
_NOT_SECTIONS = frozenset({"version", "stands_for", "named"})


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _at(section: Mapping[str, Any], number: tuple[int, ...]) -> Any:
    """Return a section's value for a release: that of the last key that is not later; its first where all are later."""
    held = [key for key in section if _number(key) <= number]
    return section[held[-1] if held else next(iter(section))]


def _tier(row: Mapping[str, Any]) -> Tier:
    major_minor = row.get("not_capability")
    return Tier(
        min_memory_bytes=row["min_memory_gib"] * GIB,
        not_named=row.get("not_named"),
        not_capability=None if major_minor is None else (major_minor[0], major_minor[1]),
        batched_tokens={"server": row["server"], "offline": row["offline"]},
        max_num_seqs=row["max_num_seqs"],
    )


@lru_cache(maxsize=1)
def _profile() -> Any:
    return load(_ENGINES / "vllm.yaml")


@lru_cache(maxsize=1)
def registry() -> Any:
    """Return the architectures of the newest release: `served` (how), `removed` (since when), `plugin`."""
    return load(_ENGINES / "vllm.architectures.yaml")
