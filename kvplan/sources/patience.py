"""How long the Hub is waited for: a bound on the whole visit, a few attempts within it, and silence meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from threading import Thread
from typing import Any, TypeVar

from kvplan.record import dataclass

ATTEMPTS = 3
LONGEST_WAIT = 5.0  # seconds between two attempts, whatever a Retry-After asks for
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Patience:
    """The time that one visit may take: `seconds` from `start` (of the monotonic clock)."""

    seconds: float
    start: float = field(default_factory=time.monotonic)

    def bound(self, call: Callable[[], _Answer]) -> _Answer:
        """Call, and raise TimeoutError where that outlasts the visit.

        A thread, because neither the library's own retries nor an answer that trickles in can be bounded otherwise; it
        is left behind, and ends with the process. The caller's thread only waits, so that Ctrl-C reaches it at once.
        """
        answers: list[_Answer] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                answers.append(call())
            except BaseException as error:  # noqa: BLE001  # handed to the caller's thread, which raises it
                errors.append(error)

        thread = Thread(target=work, name="kvplan-hub", daemon=True)
        thread.start()
        thread.join(self.seconds)
        if errors:
            raise errors[0]
        if not answers:
            raise TimeoutError
        return answers[0]

    def attempt(self, call: Callable[[], _Answer], again: Callable[[Exception], bool]) -> _Answer:
        """Call up to three times while `again` says that an error may pass; begin none in the second half."""
        for number in range(1, ATTEMPTS):
            try:
                return call()
            except Exception as error:
                wait = _wait(error, number)
                if not again(error) or time.monotonic() + wait > self.start + self.seconds / 2:
                    raise
                time.sleep(wait)
        return call()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the library's warnings and progress bars off stderr, unless its variables ask for them."""
    from huggingface_hub import constants  # noqa: PLC0415
    from huggingface_hub.utils.tqdm import (  # noqa: PLC0415
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    bars = constants.HF_HUB_DISABLE_PROGRESS_BARS is None and not are_progress_bars_disabled()
    if not constants.HF_DEBUG:
        logger.setLevel(logging.CRITICAL)
    if bars:
        disable_progress_bars()
    try:
        yield
    finally:
        logger.setLevel(level)
        if bars:
            enable_progress_bars()


def _wait(error: Exception, number: int) -> float:
    """Seconds until the next attempt: Retry-After where the answer has one, else 0.5, 1, …; never above 5."""
    response: Any = getattr(error, "response", None)
    asked = response.headers.get("Retry-After", "") if response is not None else ""
    return min(float(asked) if asked.isascii() and asked.isdigit() else 0.5 * number, LONGEST_WAIT)
