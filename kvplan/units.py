"""Bytes at the edges: reading `80 GB`, writing `74.5 GiB`. The core counts integers of bytes.

GiB = 2**30 bytes and GB = 10**9 bytes; a size without a unit is refused, because "80" has been read as both. One
rounding rule: what is read is rounded to the nearest byte, what is shown is rounded half up to the digits shown and
keeps its unit.
"""

from __future__ import annotations

import re

from kvplan.errors import UsageError

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
GB = 10**9
_UNITS = {
    "b": 1, "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB, "kb": 10**3, "mb": 10**6, "gb": GB, "tb": 10**12,
}  # fmt: skip
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": KIB, "M": MIB, "G": GIB, "T": TIB}
_HUMAN = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?([kmgtKMGT]?)", re.ASCII)
_SIZE = re.compile(r"\s*([0-9]{1,20})(?:\.([0-9]{1,12}))?\s*([A-Za-z]+)\s*", re.ASCII)


def parse_bytes(text: str, what: str = "a size") -> int:
    """Read `80 GiB`, `80GB` or `512 MiB` as an integer of bytes; `what` names the flag in the error."""
    found = _SIZE.fullmatch(text)
    if found is None or found[3].lower() not in _UNITS:
        hint = "write the unit: 80 GB is 10**9 bytes each, 80 GiB is 2**30 bytes each"
        raise UsageError(f"{what}: {text[:60]!r} is not a size with a unit", hint)
    whole, part = found[1], found[2] or ""
    scale: int = 10 ** len(part)
    return (int(whole + part) * _UNITS[found[3].lower()] * 2 + scale) // (2 * scale)


def parse_bandwidth(text: str) -> int:
    """Read the `2.9 TB/s` of --bandwidth as bytes a second; nothing can be read at none, so that 0 is refused."""
    rate = parse_bytes(text.strip().removesuffix("/s"), "--bandwidth")
    if not rate:
        raise UsageError(f"--bandwidth: {text[:60]!r} is no bandwidth", "one above 0, such as '2.9 TB/s'")
    return rate


def human_integer(text: str) -> int | None:
    """Read a number as the engines' flags do: 32k is 32,000, 32K is 32,768; None where it is no whole number."""
    found = _HUMAN.fullmatch(text.strip())
    if found is None:
        return None
    part = found[2] or ""
    count, rest = divmod(int(found[1] + part) * _SUFFIXES.get(found[3], 1), 10 ** len(part))
    return None if rest else count


def quantity(value: float, digits: int) -> str:
    """Write a number with a fixed count of digits, half up (away from zero), thousands separated."""
    top, bottom = value.as_integer_ratio()
    scale = 10**digits
    units = (2 * abs(top) * scale + bottom) // (2 * bottom)
    sign = "-" if top < 0 and units else ""
    whole, part = divmod(units, scale)
    return f"{sign}{whole:,}" + (f".{part:0{digits}}" if digits else "")


def counted(count: int, word: str) -> str:
    """Return `1 file`, `2 files`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def gib(size: int, digits: int = 1) -> str:
    """Write bytes as GiB: `74.5 GiB`."""
    return f"{quantity(size / GIB, digits)} GiB"


def binary(size: int) -> str:
    """Write bytes in the largest binary unit that keeps the number at 1 or above: `128 KiB`, `1.5 GiB`."""
    for name, unit in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(size) >= unit:
            text = quantity(size / unit, 3)
            return f"{text.rstrip('0').rstrip('.')} {name}"
    return f"{size:,} B"
