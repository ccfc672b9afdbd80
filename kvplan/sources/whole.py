"""Writing a file whole or not at all: a full disk, or Ctrl-C, leaves what was there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_MAX_LINKS = 40  # as many as Linux follows


def write_whole(path: str | Path, content: str) -> None:
    """Write UTF-8 text beside `path` and put it in its place; raises OSError."""
    with writing_whole(path) as out:
        out.write(content)


@contextmanager
def writing_whole(path: str | Path) -> Iterator[IO[str]]:
    """Open a file beside `path` for UTF-8 text with LF, put in its place where the block ends well; raises OSError.

    A link to a file is replaced, not followed. What is no file (a pipe, /dev/stdout) is written to directly.
    """
    target = Path(path)
    stream = _stream(target)
    if stream is not None:
        with open(stream, "w", encoding="utf-8", newline="\n") as out:  # noqa: PTH123  # an open file, or a path
            yield out
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with beside.open("x", encoding="utf-8", newline="\n") as out:
            yield out
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def _stream(target: Path) -> int | Path | None:
    """Return what to open of a path that cannot be replaced, None for a file or a path where nothing is yet.

    Of the process's own open files (/dev/stdout, /dev/fd/3) that is a copy: opened anew, a file that the shell opened
    would be written from its beginning.
    """
    descriptors, link = Path("/dev/fd").resolve(), target
    for _ in range(_MAX_LINKS):
        if link.name.isdecimal() and link.parent.resolve() == descriptors:
            return os.dup(int(link.name))
        if not link.is_symlink():
            break
        link = link.parent / link.readlink()
    return target if target.exists() and not target.is_file() else None
