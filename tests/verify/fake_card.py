"""A card made of integers, with every fault that a real one has; importable, so that it reaches the child.

Its "driver" is a file: process id and bytes in use. A process that is gone holds nothing, as on a real card.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from kvplan.errors import NoGpu
from kvplan.units import GIB, MIB
from kvplan.verify.device import Attend, Check, DeviceError, Facts, Memory, Multiply, Peak, Process, Row, Timing, Tune
from kvplan.verify.order import granules

READ, COPY = 4.4e12, 4.3e12  # bytes per second


@dataclass(frozen=True)
class FakeFactory:
    """`at` names the work at which `fault` happens: die, hang, raise, device (a DeviceError), interrupt."""

    folder: str
    name: str = "NVIDIA H200"
    capability: tuple[int, int] = (9, 0)
    total: int = 150_121_545_728  # 139.81 GiB
    held: int | None = 0
    context: int = 614 * MIB
    growth: int = 210 * MIB
    activations: float = 1.0
    lost: int = 0  # bytes of the pool that nobody accounts for
    wrong_words: int = 0
    row_error: float = 2.4e-3
    slow: float = 1.02
    at: str = ""
    fault: str = ""
    leak: int = 0
    strangers: tuple[int, ...] = ()
    without: str = ""

    @property
    def ledger(self):
        return Path(self.folder) / "driver"

    def open(self):
        if self.without:
            raise NoGpu(self.without, "--device cpu rehearses without a GPU")
        return FakeCard(self)

    def used(self):
        if self.held is None:
            return None
        if not self.ledger.exists():
            return self.held
        pid, used = map(int, self.ledger.read_text().split())
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return self.held + self.leak
        return used


class FakeCard:
    def __init__(self, facts):
        self.says = facts
        self.sizes = []
        self.opened = False
        self.grown = 0

    def facts(self):
        self.opened = True
        self._note()
        said = self.says
        return Facts(said.name, "sm_90", said.capability, self.memory(), said.held, "fake 1.0", rehearsal=False)

    def memory(self):
        gone = (self.says.held or 0) + (self.says.context if self.opened else 0) + self.grown
        return Memory(self.says.total - gone - sum(map(granules, self.sizes)), self.says.total)

    def processes(self):
        return tuple(Process(pid, None) for pid in self.says.strangers)

    def allocate(self, size):
        if granules(size) > self.memory().free:
            raise DeviceError(f"no room for {size / GIB:.2f} GiB")
        self.sizes.append(size)
        if len(self.sizes) > 8:
            self.grown += self.says.lost
        self._note()
        return len(self.sizes) - 1

    def release(self, buffer):
        self.sizes[buffer] = 0
        self._note()

    def launch(self, work):
        kind = type(work).__name__.lower()
        if kind == self.says.at:
            self._fail(kind)
        match work:
            case Check():
                return self.says.wrong_words if work.salt == 0 else 0
            case Peak():
                return int(work.probe.peak() * self.says.activations)
            case Row():
                return self.says.row_error
            case Multiply():
                return 2.0 * work.size**3
            case Tune():
                return 1.05
        return 0.0

    def clock(self, work):
        if type(work).__name__.lower() == self.says.at:
            self._fail(self.says.at)
        match work:
            case Check():
                return Timing(self.sizes[work.buffer] / READ, 0.0)
            case Attend():
                self.grown = self.says.growth
                return Timing(work.step.read_bytes / READ * self.says.slow, 1e-5)
            case Multiply():
                return Timing(2.0 * work.size**3 / 700e12, 0.0)
        return Timing(2 * work.size / COPY, 0.0)

    def _fail(self, kind):
        match self.says.fault:
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(600)
            case "device":
                raise DeviceError(f"{kind}: an illegal memory access was encountered")
            case "interrupt":
                raise KeyboardInterrupt
            case "raise":
                raise RuntimeError("driver says\nmany things")

    def _note(self):
        used = self.says.total - self.memory().free
        draft = self.says.ledger.with_suffix(".new")
        draft.write_text(f"{os.getpid()} {used}")
        draft.replace(self.says.ledger)  # the parent may read at any time
