"""From the whole model to the bytes of one rank: what each role keeps.

    role         a rank keeps                                                              engine's class
    vocabulary   1/TP of the rows, after padding them to 64                                VocabParallelEmbedding
    column       1/TP of the outputs (whole query heads, whole channels)                   ColumnParallelLinear
    kv           1/TP of the KV heads; never less than one, so ranks beyond them copy      QKVParallelLinear
    row          1/TP of the inputs; its bias is whole everywhere                          RowParallelLinear
    expert       TP: 1/(TP x DP) of every expert's width; EP: 1/(TP x DP) of the experts   FusedMoE
    replicated   everything: norms, routers, latent down-projections, biases               ReplicatedLinear
    tower        everything: a vision or audio encoder that the engine does not split      -
    table        everything: rope tables, masks and scales that the engine computes        buffers
    map          the rank of every expert under EP; nothing otherwise                      FusedMoE

Layers go to pipeline stages in runs. Embeddings are on the first stage and output heads on the last; a tied embedding
is on both, so that PP > 1 holds it twice. Source: vLLM 0.33.0, model_executor/layers (linear, fused_moe,
vocab_parallel_embedding) and distributed/utils (get_pp_indices).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import gcd, prod
from typing import assert_never

from kvplan.model.weights.tensors import Linear, Role, Stage, Tensor, entries, item_bytes
from kvplan.record import dataclass

VOCABULARY_PADDING = 64
SMALLEST_BLOCK = 32  # an engine's kernels take no finer scales of an FP8 expert


@dataclass(frozen=True, slots=True)
class Ranks:
    """How the model is spread: tensor and data parallel sizes, expert parallelism, and the layers of each stage."""

    tensor: int = 1
    data: int = 1
    expert_parallel: bool = False
    stages: tuple[range, ...] = ()

    @property
    def experts(self) -> int:
        """The ranks over which routed experts are spread, one way or the other."""
        return self.tensor * self.data


def rank_bytes(tensors: Iterable[Tensor], ranks: Ranks, model_dtype: str) -> list[Counter[Role]]:
    """Return, for each pipeline stage, the bytes that one of its ranks allocates, by role."""
    stages: list[Counter[Role]] = [Counter() for _ in ranks.stages or (0,)]
    for tensor in tensors:
        if tensor.holder == "checkpoint":
            continue
        one = share(tensor, ranks) * item_bytes(tensor.dtype, model_dtype)
        for bytes_by_role, layers in zip(stages, _layers_held(tensor, ranks.stages), strict=True):
            if layers:
                bytes_by_role[tensor.role] += layers * one
    return stages


def share(tensor: Tensor, ranks: Ranks) -> int:
    """Return the elements that one rank keeps of one layer's tensors of this name."""
    if tensor.role is Role.MAP and not (ranks.expert_parallel and ranks.experts > 1):
        return 0
    copies = tensor.each
    shape = list(tensor.shape)
    if tensor.role is Role.EXPERT and ranks.expert_parallel:
        copies = -(-copies // ranks.experts)
    elif tensor.axis is not None and shape:
        shape[tensor.axis] = cut(shape[tensor.axis], tensor, ranks)
    return copies * prod(_stored(tensor, shape))


def cut(size: int, tensor: Tensor | Linear, ranks: Ranks) -> int:
    """Return a rank's share of `size` along the axis that the role cuts."""
    match tensor.role:
        case Role.VOCABULARY:
            size = -(-(VOCABULARY_PADDING * -(-size // VOCABULARY_PADDING)) // ranks.tensor)
        case Role.COLUMN | Role.ROW:
            size = -(-size // ranks.tensor)
        case Role.KV:
            size = size // tensor.heads * max(1, tensor.heads // ranks.tensor)
        case Role.EXPERT:
            size = -(-_widened(size, tensor, ranks.tensor) // ranks.experts)
        case _:
            return size
    return tensor.multiple * -(-size // tensor.multiple)


def _widened(size: int, tensor: Tensor | Linear, ranks: int) -> int:
    """Return an expert's width as the engine pads it, where the ranks' shares would be narrower than they may be."""
    return ranks * tensor.least if ranks > 1 and size // ranks < tensor.least else size


def _stored(tensor: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the allocated shape of a share; blocks that do not divide it shrink where the engine can refine them."""
    per = tensor.per
    if tensor.fits_share and any(size % step for size, step in zip(shape, per, strict=True)):
        fitting = gcd(*shape, *per)
        per = (fitting,) * len(per) if fitting >= SMALLEST_BLOCK else per
    return entries(shape, per, whole=tensor.whole_groups)


def _layers_held(tensor: Tensor, stages: Sequence[range]) -> list[int]:
    """Return how many layers' worth of a tensor each stage holds."""
    if not stages:
        return [1 if tensor.layers is None else len(tensor.layers)]
    if tensor.layers is not None:
        return [sum(layer in stage for layer in tensor.layers) for stage in stages]
    return [int(_holds(tensor.stage, index, len(stages) - 1)) for index in range(len(stages))]


def _holds(where: Stage, index: int, last: int) -> bool:
    """Say whether the stage of this number holds a tensor that belongs to no layer."""
    match where:
        case Stage.EVERY:
            return True
        case Stage.FIRST:
            return index == 0
        case Stage.LAST:
            return index == last
        case Stage.ENDS:
            return index in (0, last)
        case _:
            assert_never(where)
