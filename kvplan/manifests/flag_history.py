"""Which releases of vLLM have which flag, by profiles/engines/vllm.flags.history.yaml: sure answers only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from kvplan.assets import PROFILES
from kvplan.profile import load

_VERSION = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?.*", re.ASCII | re.DOTALL)
Number: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class History:
    """The releases that were read, oldest first, and each flag's first and last (None: the newest has it) of them."""

    releases: tuple[str, ...]
    spans: Mapping[str, tuple[str, str | None]]

    def holds(self, release: str) -> bool:
        """Say whether a release lies between the oldest and the newest that were read."""
        number = _number(release)
        return number is not None and _at(self.releases[0]) <= number and number[:2] <= _at(self.releases[-1])[:2]

    def lacks(self, flag: str, release: str) -> str:
        """Return why a release surely lacks a flag, an empty string where it has it or nobody can say.

        A flag may be cut short where what it begins with is the release's, and `--no-` may stand before a switch. A
        release between two that differ is not judged.
        """
        number = _number(release)
        if number is None or not self.holds(release):
            return ""
        bare = "--" + flag.partition(".")[0].removeprefix("--").replace("_", "-")
        spellings = {bare, bare.replace("--no-", "--", 1)}
        if any(self._may(name, number) for name in self.spans if name.startswith(tuple(spellings))):
            return ""
        found = next((self.spans[name] for name in sorted(spellings) if name in self.spans), None)
        if found is None:
            return f"is no flag of vllm {release}, and of no other release"
        first, last = found
        if last is not None and _at(last) < number:
            return f"is no flag of vllm {release}: {last} is the last that is known to have it"
        return f"is no flag of vllm {release}: {first} is the first that is known to have it"

    def near(self, release: str) -> list[str]:
        """Return the flags that a release has or may have."""
        number = _number(release)
        return [name for name in self.spans if number is not None and self._may(name, number)]

    def _may(self, flag: str, number: Number) -> bool:
        """Say whether a release may have a flag: it lies before the next release without it, after the one before."""
        first, last = self.spans[flag]
        start, end = self.releases.index(first), None if last is None else self.releases.index(last)
        early = start > 0 and number <= _at(self.releases[start - 1])
        late = end is not None and end + 1 < len(self.releases) and number >= _at(self.releases[end + 1])
        return not early and not late


def _number(text: str) -> Number | None:
    found = _VERSION.fullmatch(text)
    return None if found is None else tuple(int(part or 0) for part in found.groups())


def _at(release: str) -> Number:
    return tuple(int(part) for part in release.split("."))


@cache
def history() -> History:
    """Return what is known of vLLM's flags."""
    profile = load(PROFILES / "engines" / "vllm.flags.history.yaml")
    spans = {name: (first, last) for name, (first, last) in profile["flags"].items()}
    return History(tuple(profile["releases"]), spans)
