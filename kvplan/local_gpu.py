"""The cards of this machine, as the driver sees them: by nvidia-ml-py where it is installed, else by torch."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any

from kvplan.errors import NoGpu

_HINT = "kvplan plans without a card: name one, as in --gpu h100"


@dataclass(frozen=True, slots=True)
class LocalCard:
    """One card. `smi_bytes` is the driver's total, `torch_bytes` the one that engines budget from, where asked.

    `held_bytes` is what other processes hold of it now; None where the driver does not say (unified memory).
    """

    driver_name: str
    smi_bytes: int | None
    torch_bytes: int | None
    held_bytes: int | None
    count: int
    prints_whole: bool  # Windows and WSL report the driver's total to engines too


def local_card() -> LocalCard:
    """Return the first card of this machine, and how many there are; raises NoGpu where none can be asked."""
    found = _by_nvml() or _by_torch()
    if found is None:
        raise NoGpu("this machine has no GPU whose driver can be asked", f"install nvidia-ml-py or torch; {_HINT}")
    return found


def _by_nvml() -> LocalCard | None:
    try:
        import pynvml  # noqa: PLC0415  # only --gpu local needs it
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        count = pynvml.nvmlDeviceGetCount()
        return _nvml_card(pynvml, count) if count else None
    except pynvml.NVMLError as error:
        raise NoGpu(f"the NVIDIA driver does not answer: {error}", _HINT) from error
    finally:
        pynvml.nvmlShutdown()


def _nvml_card(nvml: Any, count: int) -> LocalCard:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    name = nvml.nvmlDeviceGetName(handle)
    total = held = None
    try:
        # the second form tells what the driver keeps for itself from what processes hold
        second = getattr(nvml, "nvmlMemory_v2", None)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, **({} if second is None else {"version": second}))
        total, held = int(memory.total), int(memory.used)
    except nvml.NVMLError_NotSupported:  # GB10: the card's memory is the machine's
        pass
    return LocalCard(name if isinstance(name, str) else name.decode(), total, None, held, count, _prints_whole())


def _by_torch() -> LocalCard | None:
    try:
        import torch  # noqa: PLC0415  # only --gpu local needs it, where nvidia-ml-py is not there
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    free, total = torch.cuda.mem_get_info(0)
    name = torch.cuda.get_device_name(0)
    return LocalCard(name, None, int(total), int(total - free), torch.cuda.device_count(), _prints_whole())


def _prints_whole() -> bool:
    return platform.system() == "Windows" or "microsoft" in platform.release().casefold()
