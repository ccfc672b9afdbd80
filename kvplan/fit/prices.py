"""Hourly prices as the user knows them: a YAML mapping of card or instance type to a price; kvplan has none of its own.

currency: EUR          # optional, printed beside the figures
l4: 0.80               # any name that --gpu takes, an hour and card
h100-sxm x8: 21.50     # sold by eight
p5.48xlarge: 55.04     # an instance type brings its own count
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvplan.errors import UnknownGpu, UnreadableInput
from kvplan.hardware import parse_gpu
from kvplan.sources.document import reason, shown
from kvplan.units import KIB

LIMIT = 64 * KIB
_PRICE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)
_CURRENCY = re.compile(r"[A-Za-z$\u20ac\u00a3\u00a5]{1,8}")


@dataclass(frozen=True, slots=True)
class Offer:
    """`price` an hour for `unit` cards, which are sold together."""

    unit: int
    price: float


@dataclass(frozen=True, slots=True)
class Prices:
    """The offers of each card, by its catalogue name, and what they are counted in (empty: not said)."""

    currency: str
    offers: Mapping[str, tuple[Offer, ...]]

    def cost(self, card: str, gpus: int) -> float:
        """Return the least that so many cards cost an hour, whole units only."""
        return min(-(-gpus // offer.unit) * offer.price for offer in self.offers[card])


def read_prices(path: str | os.PathLike[str]) -> Prices:
    """Read a price file; raises UnreadableInput for what is none, and UnknownGpu, with near names, for a card."""
    name = shown(os.fspath(path))
    currency = ""
    offers: dict[str, list[Offer]] = {}
    for key, value, line in _entries(path, name):
        if key == "currency":
            if _CURRENCY.fullmatch(value) is None:
                raise UnreadableInput(f"{name}:{line}: {shown(value)} is no currency", "a sign or a code such as EUR")
            currency = value
            continue
        if _PRICE.fullmatch(value) is None:
            raise UnreadableInput(f"{name}:{line}: {shown(value)} is no price", "an hourly price such as 2.49")
        try:
            card, count = parse_gpu(key)
        except UnknownGpu as error:
            raise UnknownGpu(f"{name}:{line}: {error.message}", error.hint) from error
        offers.setdefault(card.name, []).append(Offer(count or 1, float(value)))
    if not offers:
        raise UnreadableInput(f"{name} holds no prices", "one line a card, such as `l4: 0.80`")
    return Prices(currency, {card: tuple(found) for card, found in offers.items()})


def _entries(path: str | os.PathLike[str], name: str) -> list[tuple[str, str, int]]:
    """Return the mapping's keys and values as they are written, with their lines."""
    import yaml  # noqa: PLC0415  # only a price file needs it

    if not Path(path).is_file():  # a FIFO that nobody writes to must not be waited for
        raise UnreadableInput(f"{name} is not a file", "give a YAML file of prices")
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            text = file.read(LIMIT + 1)
    except OSError as error:
        raise UnreadableInput(f"cannot read {name}: {reason(error)}", "give a YAML file of prices") from error
    except UnicodeDecodeError as error:
        raise UnreadableInput(f"{name} is not UTF-8 text", "give a YAML file of prices") from error
    if len(text) > LIMIT:
        raise UnreadableInput(f"{name} is larger than {LIMIT // KIB} KiB", "a price file is one line a card")
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where is not None else ""
        raise UnreadableInput(f"{name}{line} is not YAML", "one line a card, such as `l4: 0.80`") from error
    if not isinstance(root, yaml.MappingNode):
        raise UnreadableInput(f"{name} holds no mapping of cards to prices", "one line a card, such as `l4: 0.80`")
    return _scalars(root, name)


def _scalars(root: Any, name: str) -> list[tuple[str, str, int]]:
    found: dict[str, tuple[str, str, int]] = {}
    for key, value in root.value:
        line = key.start_mark.line + 1
        if key.id != "scalar" or value.id != "scalar":
            raise UnreadableInput(f"{name}:{line}: a card and its price were expected", "such as `l4: 0.80`")
        if key.value in found:
            raise UnreadableInput(f"{name}:{line}: {shown(key.value)} is there twice", "leave one of them out")
        found[key.value] = (key.value, value.value, line)
    return list(found.values())
