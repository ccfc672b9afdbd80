"""Everything that kvplan says no with, and the exit code of each.

    KvplanError                     2
    ├── UsageError                  2   a flag or an argument that cannot be read
    │   └── RefusedValue            2   a flag's value that the engine itself would not take
    ├── UnreadableInput             2   a file that is missing, too large or not what it claims to be
    ├── InvalidConfig               2   a config.json that contradicts itself or lacks a field
    ├── UnknownModel                2   no such built-in id, folder, repository or revision
    ├── UnknownArchitecture         2   no reader for this architecture or this form of it: kvplan declines to guess
    ├── UnknownGpu                  2   no such card in the catalogue
    ├── UnknownEngine               2   no such engine, or a release outside the known ones
    ├── HubUnreachable              3   the Hub refused or could not be reached
    ├── UrlUnreachable              3   a server's address refused or could not be reached
    ├── WouldNotStart               1   a plan that the engine refuses, where a running engine is asked for
    └── NoGpu                       4   no card in this machine that could be asked or used

Exit code 1 is the answer "no". An error has a `message` (what), a `hint` (what to do next) and an
`exit_code`; the command line prints the first two on stderr, one line each.
"""

from __future__ import annotations

from collections.abc import Iterable

OK, NO, USAGE, UNREACHABLE, NO_GPU = 0, 1, 2, 3, 4


class KvplanError(Exception):
    """A refusal to answer, with what went wrong and what to do about it."""

    exit_code = USAGE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(KvplanError):
    """A flag or an argument that cannot be read."""


class RefusedValue(UsageError):
    """A flag's value that the engine itself would not take; `flag` is the flag as it is written."""

    def __init__(self, flag: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.flag = flag


class UnreadableInput(KvplanError):
    """A file that is missing, too large or not what it claims to be."""


class InvalidConfig(KvplanError):
    """A config.json that contradicts itself or lacks a field that is needed."""


class UnknownModel(KvplanError):
    """No such built-in id, folder, repository or revision."""


class UnknownArchitecture(KvplanError):
    """No reader for this architecture: an honest "kvplan does not know"."""


class UnknownGpu(KvplanError):
    """No such card in the catalogue."""


class UnknownEngine(KvplanError):
    """No such engine, or a release that cannot be read."""


class WouldNotStart(KvplanError):
    """A plan that the engine refuses, where what it does once it runs was asked for."""

    exit_code = NO


class HubUnreachable(KvplanError):
    """The Hub refused or could not be reached."""

    exit_code = UNREACHABLE


class UrlUnreachable(KvplanError):
    """A server's address refused or could not be reached."""

    exit_code = UNREACHABLE


class NoGpu(KvplanError):
    """No card in this machine that could be asked or used."""

    exit_code = NO_GPU


def printable(text: str) -> str:
    """Return a stranger's text escaped where it would steer a terminal or begin another line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def near(name: str, known: Iterable[str], *, limit: int = 3) -> str:
    """Return `did you mean …` for the closest known names, or an empty string."""
    from difflib import SequenceMatcher, get_close_matches  # noqa: PLC0415  # only a mistake needs it

    by_folded: dict[str, list[str]] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), []).append(candidate)
    found = get_close_matches(name.casefold(), by_folded, n=limit, cutoff=0.6)
    best = [max(by_folded[match], key=lambda same: SequenceMatcher(None, name, same).ratio()) for match in found]
    return f"did you mean {', '.join(best)}" if best else ""
