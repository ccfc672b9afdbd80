"""A bar on stderr for what takes more than a second; nothing where stderr is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

_WIDTH = 30
_SOON = 1.0  # seconds before the bar appears
_CLEAR = "\r\x1b[2K"


class Bar:
    """Shows the step and how much of it is done; wiped away at the end."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def show(self, step: str, share: float) -> None:
        """Draw the bar anew."""
        if not sys.stderr.isatty() or time.monotonic() - self._start < _SOON:
            return
        done = round(_WIDTH * share)
        sys.stderr.write(f"{_CLEAR}{step:<12} [{'#' * done}{' ' * (_WIDTH - done)}]")
        sys.stderr.flush()
        self._shown = True
