"""The process that touches the card. Only its end surely frees everything, so nothing else ever does.

It speaks with its parent over one pipe: what it sees of the card, what the ranks agree on, progress, and at the end
what it measured or why it could not.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from kvplan.errors import NO, NO_GPU, KvplanError
from kvplan.verify import ranks
from kvplan.verify.device import DeviceError, Factory
from kvplan.verify.steps import Busy, run

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Progress:
    """A step, and how much of it is done."""

    step: str
    share: float


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the child ended early: one line, what to do about it, and the exit code that it means."""

    message: str
    hint: str
    code: int


def main(pipe: Connection, factory: Factory) -> None:
    """Run one verification: send Facts, agree on the blocks, carry out the Order, send what was measured.

    Talk in order: Facts > , < blocks, agreed blocks > , < Order, Progress … > , Measured > , < this rank's result, all
    ranks' results > . A Failure > takes the place of any of them.
    """
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent started it with SIGINT ignored
        _talk(pipe, factory)
    except KeyboardInterrupt:
        _say(pipe, Failure("interrupted", "", INTERRUPTED))
    except KvplanError as error:
        _say(pipe, Failure(error.message, error.hint, error.exit_code))
    except Busy as error:
        _say(pipe, Failure(str(error), "end what else runs on the card, or lower --gpu-util", NO_GPU))
    except (DeviceError, ranks.RankLost) as error:
        _say(pipe, Failure(_one_line(error), "", NO))
    except Exception as error:  # a child must say why it ends, whatever a driver's library raised
        _say(pipe, Failure(f"{type(error).__name__}: {_one_line(error)}", "KVPLAN_DEBUG=1 shows where", NO))
        if os.environ.get("KVPLAN_DEBUG") == "1":
            raise


def _talk(pipe: Connection, factory: Factory) -> None:
    device = factory.open()
    facts = device.facts()
    with ranks.join(on_gpu=not facts.rehearsal) as group:
        pipe.send(facts)
        pipe.send(group.least(_expect(pipe)))
        order = _expect(pipe)
        pipe.send(run(device, order, lambda step, share: pipe.send(Progress(step, share))))
        pipe.send(group.gather(_expect(pipe)))


def _say(pipe: Connection, failure: Failure) -> None:
    with suppress(OSError):  # a parent that is gone need not know
        pipe.send(failure)


def _expect(pipe: Connection) -> Any:
    """Return the parent's next message; a parent that is gone wants nothing more."""
    try:
        return pipe.recv()
    except EOFError:
        os._exit(NO)


def _one_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__
