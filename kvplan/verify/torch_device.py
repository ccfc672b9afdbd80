"""What torch and the kernels do on any card, and Triton's interpreter as a card (gpu_device has the real one).

Imported in the child only, after the interpreter has been switched on where it is wanted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, assert_never

import torch
import triton

from kvplan.kernels.fill import BLOCK, check, fill
from kvplan.kernels.paged_launch import Launch
from kvplan.units import GIB
from kvplan.verify import truth
from kvplan.verify.decoding import Decoding
from kvplan.verify.device import (
    Attend,
    Check,
    Copy,
    DeviceError,
    Facts,
    Fill,
    Memory,
    Multiply,
    Peak,
    Process,
    Row,
    Timing,
    Tune,
    Warm,
    Work,
)
from kvplan.verify.order import granules
from kvplan.verify.probing import phases

PRETENDED = GIB  # memory of the interpreter's card: a rehearsal is scaled down to fit


class TorchDevice:
    """What both cards share: buffers by handle, and work done by torch and the kernels."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.buffers: dict[int, torch.Tensor] = {}
        self.decoding = Decoding(device, self.buffers)

    def allocate(self, size: int) -> int:
        """Allocate bytes through torch's allocator, as engines do."""
        try:
            buffer = torch.empty(size, dtype=torch.uint8, device=self.device)
        except RuntimeError as error:  # torch.OutOfMemoryError on a GPU
            raise DeviceError(f"no room for {size / GIB:.2f} GiB") from error
        handle = len(self.buffers)
        self.buffers[handle] = buffer
        return handle

    def release(self, buffer: int) -> None:
        """Give a buffer back to the driver."""
        self.buffers[buffer] = torch.empty(0, dtype=torch.uint8, device=self.device)
        self.flush()

    def launch(self, work: Work) -> float:
        """Do a piece of work, wait for its end, and return its figure."""
        try:
            figure = self._launch(work)
            self.synchronise()
        except (RuntimeError, triton.TritonError) as error:
            raise DeviceError(f"{type(work).__name__.lower()}: {error}") from error
        return figure

    def _launch(self, work: Work) -> float:
        match work:
            case Fill():
                fill(self._words(work.buffer), getattr(torch, work.dtype), work.salt)
            case Check():
                wrong = torch.zeros(1, dtype=torch.int64, device=self.device)
                check(self._words(work.buffer), wrong, getattr(torch, work.dtype), work.salt)
                return float(wrong.item())
            case Copy():
                self.buffers[work.target][: work.size].copy_(self.buffers[work.source][: work.size])
            case Warm():
                self._warm(work)
            case Attend():
                self.decoding.run(work.step)
            case Row():
                return truth.error(work, *self.decoding.row(work))
            case Peak():
                return float(self.peak(work))
            case Multiply():
                a = torch.ones(work.size, work.size, dtype=torch.bfloat16, device=self.device)
                torch.mm(a, a)
                return 2.0 * work.size**3
            case Tune():
                return self.decoding.tune(work.step, self._seconds)
            case _:
                assert_never(work)
        return 0.0

    def clock(self, work: Work) -> Timing:
        """Time a piece of work whose figure is not asked for."""
        match work:
            case Check():
                wrong = torch.zeros(1, dtype=torch.int64, device=self.device)
                words, dtype = self._words(work.buffer), getattr(torch, work.dtype)
                return self._timed(lambda: check(words, wrong, dtype, work.salt))
            case Multiply():
                a = torch.ones(work.size, work.size, dtype=torch.bfloat16, device=self.device)
                out = torch.empty_like(a)
                return self._timed(lambda: torch.mm(a, a, out=out))
            case Attend():
                return self._timed(lambda: self.decoding.run(work.step))
            case _:
                return self._timed(lambda: self._launch(work))

    def _timed(self, action: Callable[[], Any]) -> Timing:
        try:
            return self.timed(action)
        except (RuntimeError, triton.TritonError) as error:
            raise DeviceError(str(error)) from error

    def _seconds(self, launch: Launch) -> float:
        return self.timed(launch).seconds

    def _words(self, buffer: int) -> torch.Tensor:
        whole = self.buffers[buffer]
        return whole[: whole.numel() // 16 * 16].view(torch.int32)

    def _warm(self, work: Warm) -> None:
        for step in work.steps:
            self.decoding.warm(step, work.blocks)
        scratch = torch.empty(BLOCK, dtype=torch.int32, device=self.device)
        fill(scratch, torch.bfloat16, 0)
        check(scratch, torch.zeros(1, dtype=torch.int64, device=self.device), torch.bfloat16, 0)
        one = torch.ones(16, 16, dtype=torch.bfloat16, device=self.device)
        torch.nn.functional.linear(one, one, one[0])  # opens cuBLAS and cuBLASLt, as the engine does before it looks
        self.flush()

    def synchronise(self) -> None:
        """Wait for the card."""

    def flush(self) -> None:
        """Give cached memory back to the driver."""

    def timed(self, action: Callable[[], Any]) -> Timing:
        """Time an action once."""
        start = time.perf_counter()
        action()
        return Timing(time.perf_counter() - start, 0.0)

    def peak(self, work: Peak) -> int:
        """Return the largest sum of bytes alive in any phase, counted tensor by tensor."""
        return max(sum(int(tensor.nbytes) for tensor in run()) for run in phases(work.probe, self.device))


class InterpreterDevice(TorchDevice):
    """A CPU with a pretended memory: allocations are counted as a driver counts them."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))

    def facts(self) -> Facts:
        """Describe the rehearsal."""
        software = f"torch {torch.__version__}, triton {triton.__version__} (interpreter)"
        return Facts("CPU", "interpreter", None, self.memory(), 0, software, rehearsal=True)

    def memory(self) -> Memory:
        """Return what is left of the pretended memory."""
        taken = sum(granules(buffer.nbytes) for buffer in self.buffers.values())
        return Memory(PRETENDED - taken, PRETENDED)

    def processes(self) -> tuple[Process, ...]:
        """Nobody else uses a pretended card."""
        return ()
