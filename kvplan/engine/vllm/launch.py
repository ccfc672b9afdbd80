"""One launch of the engine: what the ledger and the refusals look at."""

from __future__ import annotations

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.activation import Run
from kvplan.engine.vllm.activation.widths import Widths, widths_of
from kvplan.engine.vllm.graphs import GraphMemory, captures, graph_memory
from kvplan.engine.vllm.releases import Release
from kvplan.engine.vllm.settings import Device, Settings
from kvplan.hardware import Gpu
from kvplan.ledger import Line
from kvplan.model.spec import ModelSpec
from kvplan.record import dataclass


@dataclass(frozen=True, slots=True)
class Launch:
    """A model, its flags as the engine ends up with them, a card and a release.

    `state_block` is the block of recurrent states in tokens, where the model has any; `backends` are the names of the
    attention backends; `observed` are lines that were measured on a card of the user's own, and take the place of the
    modelled ones.
    """

    model: ModelSpec
    args: EngineArgs
    settings: Settings
    device: Device
    gpu: Gpu | None
    release: Release
    draft: ModelSpec | None = None
    state_block: int | None = None
    observed: tuple[Line, ...] = ()
    backends: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """The ranks that share NCCL buffers: the tensor-parallel ones; a pipeline alone was seen to add nothing."""
        return self.args.tensor_parallel_size

    @property
    def layers(self) -> int:
        """The most layers that a pipeline stage has."""
        return -(-len(self.model.shape.layers) // self.args.pipeline_parallel_size)

    @property
    def memory_bytes(self) -> int | None:
        """The card's memory, None without a card."""
        if self.args.gpu_memory is not None:
            return self.args.gpu_memory
        return None if self.gpu is None else self.gpu.memory_bytes

    @property
    def quantised(self) -> bool:
        """Whether the weights are quantised, in the checkpoint or while loading."""
        return self.model.quantization is not None or self.args.quantization is not None

    def run(self, stage: int) -> Run:
        """Return the profile run of a pipeline stage."""
        return Run(
            tp=self.args.tensor_parallel_size,
            stages=self.args.pipeline_parallel_size,
            stage=stage,
            expert_parallel=self.args.enable_expert_parallel,
            state_block=self.state_block,
        )

    def widths(self) -> Widths:
        """Return the widths of one rank."""
        return widths_of(self.model, self.args.tensor_parallel_size, expert_parallel=self.args.enable_expert_parallel)

    def graphs(self) -> GraphMemory:
        """Return the memory of the CUDA graphs that a rank would capture."""
        settings, release = self.settings, self.release
        count = captures(
            settings.max_num_seqs,
            settings.max_num_batched_tokens,
            settings.speculative_tokens,
            self.device.capability,
            release,
        )
        mixture = bool(self.model.num_experts) or self.model.shape.mla_dims is not None
        return graph_memory(release, count, self.layers, mixture=mixture, v2=settings.runner_v2)
