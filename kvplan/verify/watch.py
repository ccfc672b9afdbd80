"""The parent's side: start the child, talk with it, end it whatever happens, and see the card's memory come back."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn

from kvplan.errors import NO
from kvplan.units import MIB, gib
from kvplan.verify.child import Failure, Progress, main
from kvplan.verify.device import Factory

GRACE = 10.0  # seconds that a child gets to end by itself, and memory to come back
SLACK = 64 * MIB  # what the driver's own bookkeeping moves by
_POLL = 0.1


class Stopped(Exception):
    """The child failed, was stopped or died; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Aftermath:
    """How it ended: whether the child is gone, and what is still in use beyond the baseline (None: nobody can say)."""

    ended: bool
    left_bytes: int | None

    @property
    def clean(self) -> bool:
        """Whether nothing is left behind, as far as can be seen."""
        return self.ended and (self.left_bytes or 0) <= SLACK

    def words(self) -> str:
        """Say it in words."""
        if not self.ended:
            return "the child did not end"
        if self.left_bytes is None:
            return "the child has ended; no tool says whether the card's memory is back"
        if self.left_bytes > SLACK:
            return f"the child has ended, but {gib(self.left_bytes, 2)} of the card are still in use"
        return "the child has ended and the card's memory is back at its baseline"


class Child:
    """A running child. `ask` and `tell` are the two halves of the talk; a Failure from it is raised as Stopped."""

    def __init__(self, factory: Factory, timeout: float, progress: Callable[[str, float], None]) -> None:
        context = multiprocessing.get_context("spawn")  # a forked child would inherit what the parent imported
        self._pipe, other = context.Pipe()
        self._process: BaseProcess = context.Process(target=main, args=(other, factory), daemon=True)
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._progress = progress
        self._step = "start"
        self._said_all = False
        with _ignored(signal.SIGINT):  # inherited: until the child is up, Ctrl-C is the parent's to handle
            self._process.start()
        other.close()

    def tell(self, message: Any) -> None:
        """Send a message."""
        try:
            self._pipe.send(message)
        except OSError:
            self._gone()

    def ask(self) -> Any:
        """Return the next message that is no progress; raises Stopped for a failure, a death or a time-out."""
        while True:
            message = self._receive()
            if isinstance(message, Failure):
                self.finished()
                raise Stopped(message)
            if not isinstance(message, Progress):
                return message
            self._step = message.step
            self._progress(message.step, message.share)

    def _receive(self) -> Any:
        while not self._pipe.poll(_POLL):
            if time.monotonic() > self._deadline:
                raise Stopped(Failure(f"no end after {self._timeout:.0f} s, at the step {self._step!r}", "", NO))
            if not self._process.is_alive() and not self._pipe.poll():
                self._gone()
        try:
            return self._pipe.recv()
        except EOFError:
            self._gone()

    def _gone(self) -> NoReturn:
        self._process.join(GRACE)
        code = self._process.exitcode
        how = f"was ended by {signal.Signals(-code).name}" if code is not None and code < 0 else f"ended with {code}"
        raise Stopped(Failure(f"the child {how} at the step {self._step!r}", "", NO))

    def finished(self) -> None:
        """Note that the child has said its last word and ends by itself."""
        self._said_all = True

    def end(self) -> bool:
        """End the child and say whether it is gone: by itself where it has said all, else SIGINT, SIGTERM, SIGKILL."""
        if self._said_all:
            self._process.join(GRACE)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if not self._process.is_alive():
                break
            os.kill(self._process.pid or 0, number)
            self._process.join(GRACE)
        self._pipe.close()
        return not self._process.is_alive()


@contextmanager
def watched(factory: Factory, timeout: float, progress: Callable[[str, float], None]) -> Iterator[Watch]:
    """Run a child inside a `with`; on the way out, whatever the reason, it is ended and `aftermath` filled in.

    SIGTERM (torchrun ends the other ranks by it) leaves through the same door as Ctrl-C.
    """
    baseline = factory.used()
    with _handled(signal.SIGTERM, _interrupt):
        watch = Watch(Child(factory, timeout, progress))
        try:
            yield watch
        finally:
            with _ignored(signal.SIGINT), _ignored(signal.SIGTERM):  # a second one must not stop the clean-up
                watch.aftermath = Aftermath(watch.child.end(), _left(factory, baseline))


@dataclass(slots=True)
class Watch:
    """A running child, and how it ended once it has."""

    child: Child
    aftermath: Aftermath | None = None


def _left(factory: Factory, baseline: int | None) -> int | None:
    """Wait for the memory to come back; return what is in use beyond the baseline."""
    end = time.monotonic() + GRACE
    while True:
        used = factory.used()
        if used is None or baseline is None:
            return None
        if used - baseline <= SLACK or time.monotonic() > end:
            return max(0, used - baseline)
        time.sleep(_POLL)


def _interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


@contextmanager
def _handled(number: signal.Signals, handler: Any) -> Iterator[None]:
    """Handle a signal inside a `with`; outside the main thread, which alone may, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _ignored(number: signal.Signals) -> AbstractContextManager[None]:
    return _handled(number, signal.SIG_IGN)
