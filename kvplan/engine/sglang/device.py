"""The card as SGLang's defaults see it: MiB as nvidia-smi prints them, the compute capability, or ROCm."""

from __future__ import annotations

from kvplan.hardware import Gpu
from kvplan.record import dataclass
from kvplan.units import MIB

_STAND_IN_MIB = 81559  # a Hopper card of 80 GB, where none is named


@dataclass(frozen=True, slots=True)
class Device:
    """`memory_mib` decides the defaults; `rocm` cards have no CUDA capability. `assumed`: no card was named."""

    memory_mib: int
    capability: tuple[int, int]
    rocm: bool
    assumed: bool

    @classmethod
    def of(cls, gpu: Gpu | None) -> Device:
        """Return the device of a profile; without the figure of nvidia-smi the engine takes torch's, as here."""
        if gpu is None:
            return cls(_STAND_IN_MIB, (9, 0), rocm=False, assumed=True)
        memory = gpu.smi_memory_mib or gpu.memory_bytes // MIB
        return cls(memory, gpu.compute_capability or (9, 0), gpu.vendor == "amd", gpu.compute_capability is None)

    @property
    def sm(self) -> int:
        """The major compute capability, 0 on ROCm: 9 is Hopper, 10 and 12 are Blackwell."""
        return 0 if self.rocm else self.capability[0]

    @property
    def large_hopper(self) -> bool:
        """A Hopper card of 60 GiB and more, for which some defaults were profiled."""
        return self.sm == 9 and self.memory_mib >= 60 * 1024
