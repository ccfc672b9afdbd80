"""SGLang's memory on one rank: what is free before the weights, what they leave, and what is held back of it."""

from __future__ import annotations

import struct

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.capacity import partition
from kvplan.hardware import Gpu
from kvplan.ledger import Line
from kvplan.model.spec import ModelSpec
from kvplan.model.weights import Ranks, weigh
from kvplan.record import dataclass
from kvplan.units import GIB

# What process groups hold on a rank before the engine first looks: 1.25 GiB in the one public log that prints it
# (0.5.2, TP 8 on H100), and as much less or more elsewhere
_GROUPS_BYTES, _GROUPS_SPREAD = 5 * GIB // 4, 3 * GIB // 4


@dataclass(frozen=True, slots=True)
class Memory:
    """Free memory on a rank before and after the weights, in GiB as the engine reads it; `weights` is its line.

    `spread` is how far the bytes before the load may be off, 0 where they were measured.
    """

    before: float
    after: float
    weights: Line
    spread: int


def weights_line(model: ModelSpec, args: EngineArgs, dtype: str) -> Line:
    """Return the weights of the fullest rank, given or computed."""
    if args.weights is not None:
        return Line.certain("weights", args.weights, "given", "--weights")
    if args.free_before_load is not None and args.free_after_load is not None:
        taken = max(0, args.free_before_load - args.free_after_load)
        return Line.certain("weights", taken, "given", "--free-before-load less --free-after-load")
    ranks = Ranks(
        tensor=args.tensor_parallel_size,
        data=1,
        expert_parallel=args.sglang.ep_size > 1,
        stages=tuple(partition(len(model.shape.layers), args.pipeline_parallel_size)),
    )
    return weigh(model, ranks, dtype=dtype, asked=args.quantization).line


def free_memory(args: EngineArgs, gpu: Gpu | None, weights: Line) -> Memory | None:
    """Return the measured memory, or that of the card's profile and the weights; None without either."""
    shared = args.tensor_parallel_size * args.pipeline_parallel_size > 1
    before, spread = args.free_before_load, 0
    if before is None:
        total = args.gpu_memory if args.gpu_memory is not None else (gpu.memory_bytes if gpu is not None else None)
        if total is None:
            return None
        lost = gpu.start_loss_bytes if gpu is not None else 0
        before = max(0, total - lost - (_GROUPS_BYTES if shared else 0))
        if args.gpu_memory is None and gpu is not None:
            spread = max(gpu.memory_high - total, total - gpu.memory_low)
        spread += _GROUPS_SPREAD if shared else 0
    after = args.free_after_load if args.free_after_load is not None else before - weights.bytes
    return Memory(_read(before, shared=shared), _read(after, shared=shared), weights, spread)


def _read(size: int, *, shared: bool) -> float:
    """Return bytes as GiB; with several ranks the figure goes through a float32 tensor, the smallest of all ranks."""
    value = size / GIB
    return float(struct.unpack("f", struct.pack("f", value))[0]) if shared else value
