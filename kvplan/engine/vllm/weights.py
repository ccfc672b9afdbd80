"""The weight lines of vLLM's ledger: parameters and buffers as the model is built, and what loading adds to them."""

from __future__ import annotations

from functools import lru_cache

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.capacity import partition
from kvplan.engine.vllm.settings import Settings
from kvplan.ledger import Line
from kvplan.model.spec import ModelSpec
from kvplan.model.weights import Ranks, weigh
from kvplan.same import Same


def weight_lines(model: ModelSpec, args: EngineArgs, settings: Settings) -> list[Line]:
    """Return `weights` and `post_load` of the fullest rank."""
    post_load = Line.certain("post_load", 0, "exact", "nothing is repacked")
    if args.weights is not None:
        return [Line.certain("weights", args.weights, "given", "--weights"), post_load]
    return [_weighed(Same(model), ranks_of(model, args), settings.dtype, args.quantization), post_load]


@lru_cache(maxsize=64)  # no card changes it, and it is the dearest figure of a plan
def _weighed(model: Same[ModelSpec], ranks: Ranks, dtype: str, asked: str | None) -> Line:
    return weigh(model.it, ranks, dtype=dtype, asked=asked).line


def ranks_of(model: ModelSpec, args: EngineArgs) -> Ranks:
    """Return how the flags spread the model."""
    return Ranks(
        tensor=args.tensor_parallel_size,
        data=args.data_parallel_size,
        expert_parallel=args.enable_expert_parallel,
        stages=tuple(partition(len(model.shape.layers), args.pipeline_parallel_size)),
    )
