"""Where a file lies seen from a folder: of kvplan.lock for its keys and kvplan.yaml's patterns, of the repository.

Reports call a file as the current folder sees it; what is kept, or matched, must not depend on that.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePath

STDIN = "-"


def seen_from(folder: Path, file: str) -> str:
    """Return the path of a file, or of a folder, seen from a folder, with forward slashes; stdin stays `-`."""
    if file == STDIN:
        return file
    base = os.path.realpath(folder)
    real = os.path.realpath(file)
    for path in (
        real,
        os.path.normpath(Path.cwd() / file),
    ):  # a link that leads out of the folder counts where it stands
        if PurePath(path).is_relative_to(base):
            return PurePath(path).relative_to(base).as_posix()
    return PurePath(os.path.relpath(real, base)).as_posix()


def from_root(root: Path | None, file: str) -> str:
    """Return a file's path from the root of the repository; outside of it, or of any, the file as it is reported."""
    path = seen_from(root, file) if root is not None else file
    return file if path.startswith("../") else path


def covers(folder: Path, paths: Sequence[str], file: str) -> bool:
    """Say whether a file is one of the paths or lies below one, all of them seen from the folder."""
    if file == STDIN:
        return STDIN in paths
    place = PurePath(os.path.normpath(folder / file))
    return any(place.is_relative_to(os.path.normpath(folder / path)) for path in paths if path != STDIN)
