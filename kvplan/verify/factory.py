"""Which card the child opens: a GPU by its number, or the interpreter; checked as far as that goes without torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec

from kvplan.errors import NoGpu, UsageError
from kvplan.verify import driver
from kvplan.verify.device import Device, Factory
from kvplan.verify.ranks import Place

_HINT = "pip install '.[gpu]' has torch and triton"


@dataclass(frozen=True, slots=True)
class GpuFactory:
    """A GPU, by CUDA's number."""

    index: int

    def open(self) -> Device:
        """Import torch and open the card; raises NoGpu."""
        import torch  # noqa: PLC0415  # in the child only

        if not torch.cuda.is_available():
            without = torch.version.cuda is None and torch.version.hip is None
            why = "is built without CUDA" if without else "finds no GPU"
            raise NoGpu(f"torch {torch.__version__} {why}", "--device cpu rehearses without a GPU")
        if self.index >= torch.cuda.device_count():
            raise NoGpu(f"there is no cuda:{self.index}: torch sees {torch.cuda.device_count()} cards")
        from kvplan.verify.gpu_device import GpuDevice  # noqa: PLC0415

        return GpuDevice(self.index)

    def used(self) -> int | None:
        """Return what the driver's tool says is in use on the card."""
        return driver.used(self.index)


@dataclass(frozen=True, slots=True)
class InterpreterFactory:
    """Triton's interpreter on a CPU."""

    def open(self) -> Device:
        """Switch the interpreter on and repair it, before a kernel is imported; raises NoGpu where it is unusable."""
        from kvplan.verify import interpreter  # noqa: PLC0415  # in the child only

        try:
            interpreter.enable()
        except interpreter.InterpreterUnusable as error:
            raise NoGpu(str(error), _HINT) from error
        from kvplan.verify.torch_device import InterpreterDevice  # noqa: PLC0415

        return InterpreterDevice()

    def used(self) -> int | None:
        """Return nothing: the operating system takes a process's memory back."""
        return 0


def torch_factory(device: str, place: Place) -> Factory:
    """Return the factory of `--device`; torchrun's local rank moves a GPU's number. Raises UsageError and NoGpu."""
    found = re.fullmatch(r"cuda(?::([0-9]{1,3}))?", device, re.ASCII)
    if found is None and device != "cpu":
        raise UsageError(f"--device {device[:40]!r} is neither cuda:N nor cpu")
    missing = [name for name in ("torch", "triton", "numpy") if find_spec(name) is None]
    if missing:
        raise NoGpu(f"{' and '.join(missing)} not installed: verify runs kernels", _HINT)
    if found is None:
        return InterpreterFactory()
    return GpuFactory(int(found[1] or 0) + place.local)
