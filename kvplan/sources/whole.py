"""Writing a file whole or not at all: a full disk, or Ctrl-C, leaves what was there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: str | Path, content: str) -> None:
    """Write UTF-8 text beside `path` and put it in its place; raises OSError.

    A link is replaced, not followed. What is no file (a pipe, /dev/stdout) is written to directly.
    """
    target = Path(path)
    if not target.is_symlink() and target.exists() and not target.is_file():
        target.write_text(content, encoding="utf-8")
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(content)
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
