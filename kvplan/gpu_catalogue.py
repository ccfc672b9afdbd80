"""Which card a name means: the names of profiles/gpus, found without parsing the cards.

The cards are 330 KB of text. Only the opening lines of each document are looked at here, and `plain` parses the one
document that is asked for; profiles/gpus/defaults.yaml describes the format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from kvplan.assets import PROFILES
from kvplan.profile import plain
from kvplan.record import dataclass

GPUS = PROFILES / "gpus"
_OPENING = 6  # name, label, driver_names, aliases, shared_names, labels
_PRODUCT = "nvidia.com/gpu.product="  # the driver's name with blanks as "-": found, and shared, as that one is
_QUOTED = re.compile(r'"([^"]*)"')
_NOISE = re.compile(r"[\s\u00a0_()-]+", re.ASCII)
_VENDOR = re.compile(r"\A(?:nvidia|amd|intel|google|aws)(?=.)")
_LABEL_KEY = re.compile(r"\A\s*[A-Za-z0-9][A-Za-z0-9._/-]*\s*=")
_SIZE = re.compile(r"(.*\S)[\s_(-]+([0-9]{1,4})\s*gi?b\)?\s*", re.ASCII | re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Match:
    """What a name stands for: one card, or the default of several; `count` is given by an instance type alone."""

    card: str
    among: tuple[str, ...] = ()
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """Folded names to cards: `labels` are whole label values, `own` belongs to one card, `shared` to others besides."""

    documents: Mapping[str, str]
    spellings: Mapping[str, str]
    labels: Mapping[str, str]
    own: Mapping[str, str]
    shared: Mapping[str, tuple[str, ...]]


def fold(name: str) -> str:
    """Take case, blanks, `_`, `-` and brackets out of a name."""
    return _NOISE.sub("", name.casefold())


def short(folded: str) -> str:
    """Take the vendor's name off a folded name."""
    return _VENDOR.sub("", folded)


def _documents() -> Iterator[str]:
    for path in sorted(GPUS.glob("*.yaml")):
        for document in path.read_text(encoding="utf-8").split("\n---\n"):
            if document.startswith("name: "):
                yield document


@cache
def index() -> Index:
    """Read the opening lines of every card."""
    documents: dict[str, str] = {}
    spellings: dict[str, str] = {}
    labels: dict[str, str] = {}
    own: dict[str, str] = {}
    shared: dict[str, tuple[str, ...]] = {}
    for document in _documents():
        lines = document.split("\n", _OPENING)[:_OPENING]
        name = lines[0].removeprefix("name: ")
        documents[name] = document
        spellings[name] = name
        own[short(fold(name))] = name
        for line in lines[1:]:
            key, _, value = line.partition(": ")
            for spelling in _QUOTED.findall(value):
                if key == "labels" and not spelling.startswith(_PRODUCT):
                    labels[fold(spelling.partition("=")[2])] = name
                elif key == "shared_names":
                    folded = short(fold(spelling))
                    shared[folded] = (*shared.get(folded, ()), name)
                elif key in {"driver_names", "aliases"}:
                    own[short(fold(spelling))] = name
                    spellings[spelling] = name
    return Index(documents, spellings, labels, own, shared)


@cache
def instances() -> dict[str, Match]:
    """Read the instance types: folded name to card and count."""
    found = {}
    for name, entry in plain((GPUS / "instances.yaml").read_text(encoding="utf-8")).items():
        match = Match(entry["gpu"], count=entry.get("count"))
        for spelling in (name, *entry.get("aliases", ())):
            found[fold(spelling)] = match
    return found


def card(name: str) -> dict[str, Any]:
    """Parse the document of one card, by its catalogue name."""
    return plain(index().documents[name])


def lookup(text: str) -> Match | None:
    """Find the card that a name means, or None.

    `text` is a catalogue name, what the driver prints, a marketing name (with or without its memory size), a Kubernetes
    label (with or without its key and the -SHARED of time slicing) or a cloud instance type.
    """
    value = _LABEL_KEY.sub("", text)
    folded = fold(value)
    if found := _named(folded) or _named(folded.removesuffix("shared")):
        return found
    if (sized := _SIZE.fullmatch(value)) and (found := _with_size(sized[1], int(sized[2]))):
        return found
    return instances().get(folded)


def _named(folded: str) -> Match | None:
    if folded in index().labels:
        return Match(index().labels[folded])
    bare = short(folded)
    if bare not in index().own:
        return None
    name = index().own[bare]
    others = index().shared.get(bare, ())
    return Match(name, (name, *others) if others else ())


def _with_size(text: str, gigabytes: int) -> Match | None:
    """Find the cards called `text` that have this nominal memory."""
    found = _named(fold(text))
    if found is None:
        return None
    fitting = tuple(name for name in found.among or (found.card,) if card(name)["nominal_gb"]["value"] == gigabytes)
    if not fitting:
        return None
    return Match(fitting[0], fitting if len(fitting) > 1 else ())
