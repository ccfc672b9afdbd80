"""The real card: torch allocates, the kernels work, the driver counts."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
import triton

from kvplan.errors import NoGpu
from kvplan.verify import driver
from kvplan.verify.device import Facts, Memory, Peak, Process, Timing
from kvplan.verify.probing import phases
from kvplan.verify.torch_device import TorchDevice

OLDEST = (8, 0)  # Ampere: before it there is neither bfloat16 nor an asynchronous copy
REPEATS, ENOUGH = 20, 0.5  # repeats of a timing, and seconds after which fewer will do


class GpuDevice(TorchDevice):
    """A GPU through torch: CUDA, or ROCm under the same names."""

    def __init__(self, index: int) -> None:
        super().__init__(torch.device("cuda", index))
        self.index = index
        self._held = driver.used(index)
        self._facts: Facts | None = None

    def facts(self) -> Facts:
        """Describe the card; the first call makes the context. Raises NoGpu for a card that the kernels cannot use."""
        if self._facts is None:
            try:
                torch.cuda.set_device(self.device)
                torch.zeros(1, device=self.device)
                properties = torch.cuda.get_device_properties(self.device)
            except RuntimeError as error:
                raise NoGpu(f"cuda:{self.index} cannot be opened: {str(error).splitlines()[0]}", _FREE) from error
            capability = (properties.major, properties.minor)
            hip = torch.version.hip is not None
            if not hip and capability < OLDEST:
                raise NoGpu(
                    f"{properties.name} has compute capability {capability[0]}.{capability[1]}:"
                    f" the kernels need {OLDEST[0]}.{OLDEST[1]}",
                    "`kvplan size` plans it all the same",
                )
            chip = properties.gcnArchName.split(":")[0] if hip else f"sm_{capability[0]}{capability[1]}"
            software = f"torch {torch.__version__}, triton {triton.__version__}"
            self._facts = Facts(
                properties.name, chip, None if hip else capability, self.memory(), self._held, software, rehearsal=False
            )
        return self._facts

    def memory(self) -> Memory:
        """Return cudaMemGetInfo's figures."""
        free, total = torch.cuda.mem_get_info(self.device)
        return Memory(int(free), int(total))

    def processes(self) -> tuple[Process, ...]:
        """Return the other compute processes that the driver shows."""
        return driver.others(self.index)

    def synchronise(self) -> None:
        """Wait for the card."""
        torch.cuda.synchronize(self.device)

    def flush(self) -> None:
        """Give cached memory back to the driver."""
        torch.cuda.empty_cache()

    def timed(self, action: Callable[[], Any]) -> Timing:
        """Time replays of a captured graph by events: launches cost the host nothing there."""
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            action()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.synchronise()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            action()
        seconds: list[float] = []
        for _ in range(3):
            graph.replay()
        while len(seconds) < REPEATS and (len(seconds) < 5 or sum(seconds) < ENOUGH):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            seconds.append(start.elapsed_time(end) / 1e3)
        low, middle, high = statistics.quantiles(seconds, n=4)
        del graph
        self.flush()
        return Timing(middle, high - low)

    def peak(self, work: Peak) -> int:
        """Return the allocator's own peak over the phases, beyond what was there before each, its weights included."""
        highest = 0
        for run in phases(work.probe, self.device):
            base = torch.cuda.memory_allocated(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            run()
            highest = max(highest, int(torch.cuda.max_memory_allocated(self.device)) - base)
        self.flush()
        return highest


_FREE = "end what uses the card, or name another with --device cuda:N"
