"""What a rank loses to things that torch does not hold: before the first snapshot, and between it and the pool.

CUDA's context, NCCL's buffers and the libraries' handles follow no closed form. The figures are medians of public logs
by release and by kind of card, in profiles/engines/vllm.yaml; where no log shows a combination, its neighbour stands
in with a wider interval.
"""

from __future__ import annotations

from kvplan.engine.vllm.releases import Release
from kvplan.engine.vllm.settings import Device
from kvplan.hardware import Gpu
from kvplan.record import dataclass
from kvplan.units import GIB

_LARGE = (9, 10)  # compute capabilities of the data-centre cards that most logs are of


@dataclass(frozen=True, slots=True)
class Residue:
    """Bytes with their interval, and the logs that they rest on."""

    bytes: int
    low: int
    high: int
    why: str


def non_torch(release: Release, device: Device, ranks: int) -> Residue:
    """Return what grows outside of torch between the first snapshot and the pool on one of `ranks` NCCL ranks."""
    if device.unified_memory:
        row = release.non_torch_unified
    else:
        kind = "large" if device.capability[0] in _LARGE else "small"
        row = release.non_torch[f"{kind}_{'several' if ranks > 1 else 'one'}"]
    value, low, high = row["gib"]
    size, least, most = (round(figure * GIB) for figure in (value, low, high))
    return Residue(size, least, most, row["why"])


def start_loss(release: Release, gpu: Gpu, ranks: int) -> Residue:
    """Return what is gone of the card's memory at the first snapshot: the context, NCCL where it is set up before."""
    held = gpu.held_bytes
    value, low, high = release.nccl_before_snapshot["gib"] if ranks > 1 else (0.0, 0.0, 0.0)
    return Residue(
        gpu.start_loss_bytes + held + round(value * GIB),
        gpu.start_loss_low + held + round(low * GIB),
        gpu.start_loss_high + held + round(high * GIB),
        release.nccl_before_snapshot["why"] if ranks > 1 else gpu.start_loss_source,
    )
