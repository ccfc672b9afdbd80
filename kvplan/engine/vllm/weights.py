"""The weight lines of vLLM's ledger: parameters and buffers as the model is built, and what loading adds to them."""

from __future__ import annotations

from functools import lru_cache

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.capacity import partition
from kvplan.engine.vllm.settings import Device, Settings
from kvplan.ledger import Line
from kvplan.model.spec import ModelSpec
from kvplan.model.weights import Ranks, Weights, weigh
from kvplan.same import Same


def weight_lines(model: ModelSpec, args: EngineArgs, settings: Settings, device: Device) -> list[Line]:
    """Return `weights` and `post_load` of the fullest rank."""
    if args.weights is not None:  # as an engine prints it: with all that loading adds
        return [Line.certain("weights", args.weights, "given", "--weights")]
    found = weighed(model, args, settings, device)
    return [found.line, found.post_load]


def weighed(model: ModelSpec, args: EngineArgs, settings: Settings, device: Device) -> Weights:
    """Return the weights of the fullest rank, by role too."""
    return _weighed(Same(model), ranks_of(model, args), settings.dtype, args.quantization, device.capability)


# the dearest figure of a plan, and few flags change it
@lru_cache(maxsize=64)
def _weighed(
    model: Same[ModelSpec], ranks: Ranks, dtype: str, asked: str | None, capability: tuple[int, int]
) -> Weights:
    return weigh(model.it, ranks, dtype=dtype, asked=asked, capability=capability)


def ranks_of(model: ModelSpec, args: EngineArgs) -> Ranks:
    """Return how the flags spread the model."""
    return Ranks(
        tensor=args.tensor_parallel_size,
        data=args.data_parallel_size,
        expert_parallel=args.enable_expert_parallel,
        stages=tuple(partition(len(model.shape.layers), args.pipeline_parallel_size)),
    )
