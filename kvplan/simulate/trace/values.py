"""Numbers and times as traces write them."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import lru_cache

MAX_TOKENS = 2**24  # the longest context that any model is sold with is 10 million tokens
MAX_NS = 2**62
MAX_WHOLE = 2**63  # no priority or count is larger; 1e308 is no whole number that anybody means
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,9})[0-9]*)?\s*"
    r"(?:(Z)|([+-])([0-9]{2}):?([0-9]{2}))?",
    re.ASCII,
)
_EPOCH = date(1970, 1, 1).toordinal()


def tokens(value: object) -> int | None:
    """Read a count of tokens; None where it is none (negative, absurd, a fraction, a word)."""
    count = whole(value)
    return count if count is not None and 0 <= count <= MAX_TOKENS else None


def whole(value: object) -> int | None:
    """Read a whole number, as JSON or a text has it; None where it is none (a fraction, a word, beyond 64 bits)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip()
        if not text.isascii():
            return None
        if not text.isdigit() or len(text) > 12:
            number = _decimal(text)
            return None if number is None or number != int(number) else whole(int(number))
        value = int(text)
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and abs(value) <= MAX_WHOLE else None


def nanoseconds(value: object, unit: str) -> int | None:
    """Read a time: a number in a unit, or a date with a time of day, to the nanosecond; None where it is neither."""
    if isinstance(value, str):
        found = _TIME.fullmatch(value.strip())
        if found is not None:
            return _clock(found)
    elif isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    number = _decimal(str(value))
    if number is None:
        return None
    exact = int(number * UNITS[unit])
    return exact if abs(exact) <= MAX_NS else None


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    # the exponent first: int() of 1e999999999 would take the machine's memory
    return number if number.is_finite() and number.adjusted() <= 20 else None


def _clock(found: re.Match[str]) -> int | None:
    day, hours, minutes, seconds, fraction, _, sign, zone_hours, zone_minutes = found.groups()
    start = _day(day)
    if start is None:
        return None
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    if sign:
        zone = int(zone_hours) * 3600 + int(zone_minutes) * 60
        whole += zone if sign == "-" else -zone
    return (start * 86_400 + whole) * 10**9 + (int(fraction.ljust(9, "0")) if fraction else 0)


@lru_cache(maxsize=64)
def _day(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        return None
