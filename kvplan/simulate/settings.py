"""What the scheduler is told: the `settings` object of a replay, checked, with vLLM 0.33's own defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from kvplan.errors import UsageError, near
from kvplan.simulate.clock import CONVENTION, PS, Clock

MAX_BLOCKS = 2**31
MAX_TOKENS = 2**40
MAX_GROUPS = 256
_GROUP = re.compile(r"(?:([0-9]{1,3})x)?(full|swa([0-9]{1,9}))", re.ASCII)


@dataclass(frozen=True, slots=True)
class Settings:
    """One engine's scheduler and pool. Counts are blocks, lengths tokens; `groups` holds a window, or None, a group.

    `num_blocks` counts the null block, so `usable` is one less. `retention` is vLLM's prefix_cache_retention_interval:
    0 keeps only what a repeated prompt can hit, None keeps every block, a number keeps a tail that often.
    """

    num_blocks: int
    block_size: int = 16
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 8192
    max_model_len: int = 131_072
    groups: tuple[int | None, ...] = (None,)
    prefix_caching: bool = True
    retention: int | None = 0
    watermark: float = 0.0
    reserve_full_isl: bool = True
    chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    policy: Literal["fcfs", "priority"] = "fcfs"
    async_scheduling: bool = False
    arrival: Literal["all", "clock"] = "all"
    speed: float = 1
    n: int = 1
    output_len_override: int | None = None
    clock: Clock = CONVENTION

    @property
    def usable(self) -> int:
        """Blocks that requests can hold: all but the null block."""
        return self.num_blocks - 1

    @property
    def watermark_blocks(self) -> int:
        """Blocks that an admission must leave free while something runs."""
        return int(self.watermark * self.num_blocks)

    @property
    def plain(self) -> bool:
        """Whether there is one group, of full attention: a block a block of tokens, kept until the end."""
        return self.groups == (None,)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows of a trace a replay takes: `row_count` from `first_row` on (counted from 0), all where it is None."""

    first_row: int = 0
    row_count: int | None = None


_RENAMED = {"kv_groups": "groups", "clock_ns": "clock"}  # what a replay's settings call them
_ELSEWHERE = frozenset({"trace", "first_row", "row_count"})
_RANGES = {
    "num_blocks": (2, MAX_BLOCKS),
    "block_size": (1, MAX_TOKENS),
    "max_num_seqs": (1, MAX_BLOCKS),
    "max_num_batched_tokens": (1, MAX_TOKENS),
    "max_model_len": (2, MAX_TOKENS),
    "long_prefill_token_threshold": (0, MAX_TOKENS),
    "n": (1, 4096),
    "output_len_override": (1, MAX_TOKENS),
    "retention": (0, MAX_TOKENS),
}
_SWITCHES = frozenset({"prefix_caching", "reserve_full_isl", "chunked_prefill", "async_scheduling"})
_NULLABLE = frozenset({"retention", "output_len_override"})
_CHOICES = {"policy": ("fcfs", "priority"), "arrival": ("all", "clock")}


def read_settings(given: Mapping[str, Any]) -> tuple[Settings, Selection]:
    """Read the `settings` object of a replay; raises UsageError, which names the key."""
    known = {f.name for f in fields(Settings)} - set(_RENAMED.values()) | set(_RENAMED) | _ELSEWHERE
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"unknown setting {name[:60]!r}", near(name, known))
        if name not in _ELSEWHERE:
            values[_RENAMED.get(name, name)] = _checked(name, value)
    if "num_blocks" not in values:
        raise UsageError("the settings give no num_blocks", "the pool's size in blocks, the null block counted")
    rows = Selection(_whole("first_row", given.get("first_row", 0), 0), _row_count(given.get("row_count")))
    return consistent(Settings(**values)), rows


def consistent(settings: Settings) -> Settings:
    """Return the settings; raises UsageError where the engine itself would refuse them together."""
    if settings.max_num_batched_tokens < settings.max_num_seqs:
        raise UsageError(
            f"max_num_batched_tokens ({settings.max_num_batched_tokens:,}) is below max_num_seqs"
            f" ({settings.max_num_seqs:,})",
            "the engine refuses this: every running request takes a token a step",
        )
    if not settings.chunked_prefill and settings.max_num_batched_tokens < settings.max_model_len:
        raise UsageError(
            "without chunked_prefill, max_num_batched_tokens must hold a prompt of max_model_len",
            f"raise it to {settings.max_model_len:,}, or lower max_model_len",
        )
    if settings.long_prefill_token_threshold > settings.max_model_len:
        raise UsageError("long_prefill_token_threshold is above max_model_len", "the engine refuses this")
    windowed = any(window is not None for window in settings.groups)
    if settings.retention and (not windowed or settings.retention % settings.block_size):
        raise UsageError(
            f"retention {settings.retention} is refused by the engine",
            "0, or null, or with sliding-window groups a multiple of the block size",
        )
    return settings


def parse_groups(text: str) -> tuple[int | None, ...]:
    """Read `full`, `swa4096` or `full+5xswa1024` as a window a group, None for full attention."""
    groups: list[int | None] = []
    for part in text.split("+"):
        found = _GROUP.fullmatch(part.strip())
        if found is None or len(groups) + int(found[1] or 1) > MAX_GROUPS or found[3] == "0":
            raise UsageError(f"kv_groups: {text[:60]!r} is not read", "full, swaW or NxswaW, joined with +")
        groups += [int(found[3]) if found[3] else None] * int(found[1] or 1)
    if not groups:
        raise UsageError(f"kv_groups: {text[:60]!r} names no group", "full, swaW or NxswaW, joined with +")
    return tuple(groups)


def _checked(name: str, value: Any) -> Any:
    match name:
        case "kv_groups" if isinstance(value, str):
            return parse_groups(value)
        case "clock_ns" if isinstance(value, Mapping) and set(value) <= {"A", "B", "C"}:
            return Clock(*(_whole(f"clock_ns.{key}", value.get(key, 0), 0, MAX_TOKENS) * PS for key in "ABC"))
        case "watermark" | "speed":
            return _number(name, value)
        case _ if name in _CHOICES:
            if value not in _CHOICES[name]:
                raise UsageError(f"{name}: {str(value)[:40]!r} is unknown", f"one of {', '.join(_CHOICES[name])}")
            return value
        case _ if name in _RANGES:
            return None if value is None and name in _NULLABLE else _whole(name, value, *_RANGES[name])
        case _ if name in _SWITCHES and isinstance(value, bool):
            return value
    raise UsageError(f"{name} cannot be {str(value)[:40]!r}")


def _whole(name: str, value: Any, low: int, high: int = MAX_BLOCKS) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"{name} takes a whole number from {low:,} to {high:,}, not {str(value)[:40]!r}")
    return value


def _number(name: str, value: Any) -> float:
    top = 1 if name == "watermark" else 10**6
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= top:
        raise UsageError(f"{name} takes a number from 0 to {top:,}, not {str(value)[:40]!r}")
    if name == "speed" and value < 1 / top:
        raise UsageError(f"speed {value} never gets to the second request", "1 is the trace's own speed, 2 twice it")
    return value


def _row_count(value: Any) -> int | None:
    return None if value is None else _whole("row_count", value, 0)
