"""The files of one command are different ones: an output takes no input's place, and no other output's."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from kvplan.errors import UsageError
from kvplan.sources.document import shown


def check_apart(named: Mapping[str, str | None]) -> None:
    """Raise UsageError where two options name one file, whatever links lead to it; nothing is opened.

    A device keeps nothing: /dev/null, or a terminal, may be named twice.
    """
    seen: dict[object, str] = {}
    for option, path in named.items():
        found = None if path is None else _identity(path)
        if path is None or found is None:
            continue
        if found in seen:
            raise UsageError(f"{seen[found]} and {option} are one file: {shown(path)}", "give each a file of its own")
        seen[found] = option


def _identity(path: str) -> object | None:
    """Return what a path leads to: a file by its number, a path where nothing is yet by itself; None for a device."""
    try:
        status = os.stat(path)  # noqa: PTH116  # as in sources: one call for all
    except OSError:
        return os.path.realpath(path)  # Path.resolve raises where links go round
    except ValueError:  # a null byte: who opens it says so
        return None
    return None if stat.S_ISCHR(status.st_mode) else (status.st_dev, status.st_ino)
