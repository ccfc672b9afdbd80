"""Replays in processes of their own: Ctrl-C ends each with what it knows, and none of them with a traceback.

A terminal sends SIGINT to every process at once, also to a worker that is starting, waits for a task or sends a result.
Only a replay has something to tell, so only inside one is it let in.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")


def spread(run: Callable[[_Task], _Answer], tasks: Sequence[_Task], workers: int) -> list[_Answer]:
    """Run tasks in so many processes and return their answers in the order of the tasks.

    After Ctrl-C it returns those that have come to any; raises KeyboardInterrupt where none has.
    """
    others, futures = set(multiprocessing.active_children()), list[Future[_Answer | None]]()
    with ProcessPoolExecutor(workers, initializer=_begin) as pool:
        try:
            with _held_back():
                futures += [pool.submit(_within, run, task) for task in tasks]
            return [answer for future in futures if (answer := future.result()) is not None]
        except KeyboardInterrupt:
            for child in set(multiprocessing.active_children()) - others:  # who called `kill -INT` meant one process
                with suppress(OSError):
                    os.kill(child.pid or 0, signal.SIGINT)
            pool.shutdown(wait=True, cancel_futures=True)
            known = [answer for future in futures if (answer := _known(future)) is not None]
            if not known:
                raise
            return known


@contextmanager
def _held_back() -> Iterator[None]:
    """Keep SIGINT waiting: a worker is born with it held back, until it can handle it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _known(future: Future[_Answer | None]) -> _Answer | None:
    return future.result() if future.done() and not future.cancelled() and future.exception() is None else None


@dataclass(slots=True)
class _Worker:
    """This process, where it is a worker."""

    replaying: bool = False
    stopped: bool = False


_WORKER = _Worker()


def _begin() -> None:
    signal.signal(signal.SIGINT, _interrupt)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _interrupt(_number: int, _frame: object) -> None:
    """End the replay that is under way, once; those that wait in the queue will not begin."""
    first, _WORKER.stopped = not _WORKER.stopped, True
    if first and _WORKER.replaying:
        raise KeyboardInterrupt


def _within(run: Callable[[_Task], _Answer], task: _Task) -> _Answer | None:
    """Run a task in a worker; None where Ctrl-C came before it had anything to tell."""
    if _WORKER.stopped:
        return None
    _WORKER.replaying = True
    try:
        return run(task)
    except KeyboardInterrupt:
        return None
    finally:
        _WORKER.replaying = False
