"""The peak of the profile run on one pipeline stage: which phase leads, what is kept, and what the card adds."""

from __future__ import annotations

from typing import Literal, TypeAlias

from kvplan.engine.vllm.activation.forward import Step, forward_bytes, kept_workspace_bytes
from kvplan.engine.vllm.activation.phases import Rows, gathering_bytes, kept_rows_bytes, sampling_bytes
from kvplan.engine.vllm.activation.widths import widths_of
from kvplan.engine.vllm.releases import Release
from kvplan.engine.vllm.settings import Device, Settings, is_pooling
from kvplan.model.spec import ModelSpec
from kvplan.record import dataclass
from kvplan.units import MIB

Phase: TypeAlias = Literal["forward", "logits", "sampler"]

_MULTIPROCESSORS = 132  # of an H100, where the card's own are not known
_FUSED_NORMS = (0, 22)  # from this release a fused addition and norm returns two new tensors
_SPECULATING = 16  # bytes a logit more under V1's rejection sampler, which the profile run gives two rows a request


@dataclass(frozen=True, slots=True)
class Run:
    """The ranks and the pipeline stage that the run is taken on; `state_block`: tokens a block of recurrent states."""

    tp: int
    stages: int
    stage: int
    expert_parallel: bool = False
    state_block: int | None = None

    @property
    def is_last(self) -> bool:
        """Whether this stage computes logits."""
        return self.stage == self.stages - 1


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes over what was allocated before the run. `kept` stays after it, and is part of the phases' figures.

    `autotuning` is the card's L2 cache, which the first launch of an autotuned kernel flushes with a buffer of its
    size; `library` the workspace that cuBLAS allocates on its first use. Both are part of `bytes`.
    """

    forward: int
    logits: int
    sampler: int
    kept: int
    autotuning: int
    library: int

    @property
    def leads(self) -> Phase:
        """Return the phase that needs most."""
        if self.forward + self.autotuning >= max(self.logits, self.sampler):
            return "forward"
        return "sampler" if self.sampler >= self.logits else "logits"

    @property
    def bytes(self) -> int:
        """The peak, in bytes."""
        return max(self.forward + self.autotuning, self.logits, self.sampler) + self.library

    @property
    def without_autotuning(self) -> int:
        """The peak where kernels come tuned from a cache, in bytes."""
        return max(self.forward, self.logits, self.sampler) + self.library


def profile_peak(model: ModelSpec, settings: Settings, device: Device, release: Release, run: Run) -> Peak:
    """Return the peak of one stage; raises InvalidConfig where the config's widths cannot be read."""
    tokens, item = settings.max_num_batched_tokens, settings.item_size
    rows = min(settings.max_num_seqs, tokens // (1 + settings.speculative_tokens) or 1)
    step = Step(
        tokens=tokens,
        requests=settings.max_num_seqs,
        max_model_len=settings.max_model_len,
        tp=run.tp,
        item=item,
        fused_norms=release.number >= _FUSED_NORMS,
        workspace_kept=release.expert_workspace_kept,
        latent_workspace=release.mla_workspace_profiled,
        state_block=run.state_block if _hands_out_states(settings, device, release) else None,
    )
    widths = widths_of(model, run.tp, expert_parallel=run.expert_parallel, newest=release.is_newest)
    consumed = release.budget == "consumed"
    # the hidden states that came from the stage before: from 0.27 they are charged as a buffer that persists
    received = 0 if run.stage == 0 or consumed else 2 * tokens * model.hidden_size * item
    kept = kept_workspace_bytes(widths, step)
    forward, logits, sampler = forward_bytes(widths, step) + received, 0, 0
    if run.is_last and not is_pooling(model):
        sampled = Rows(rows, model.vocab_size, model.hidden_size, tokens, item, run.tp, 1 if settings.runner_v2 else 2)
        added, keeps = _sampler(settings, device, release)
        buffer = kept_rows_bytes(sampled, device.multiprocessors or _MULTIPROCESSORS) if keeps else 0
        logits = gathering_bytes(sampled, softcap=model.shape.softcap) + received + kept
        sampler = sampling_bytes(sampled, added, buffer) + received + kept
        kept += buffer
    return Peak(
        forward=forward,
        logits=logits,
        sampler=sampler,
        kept=kept,
        autotuning=round(device.l2_mib * MIB) if device.l2_mib else 0,
        library=0 if consumed else _library_bytes(device),
    )


def _hands_out_states(settings: Settings, device: Device, release: Release) -> bool:
    return release.delta_workspace and settings.prefix_caching and device.capability[0] == _HOPPER


_HOPPER = 9


def _sampler(settings: Settings, device: Device, release: Release) -> tuple[int, bool]:
    """Return the bytes that the sampler adds to a logit, and whether it keeps rows of logits."""
    flashinfer = device.capability >= (8, 0)
    if not settings.runner_v2:
        copied = 0 if settings.item_size < 4 else 4  # float32 logits need no copy in float32
        speculating = _SPECULATING if settings.speculative_tokens and release.sampler_keeps_rows else 0
        return release.sampler_v1 - copied + speculating, release.sampler_keeps_rows
    if release.sampler_v2 > _COPY and not flashinfer:
        return _COPY, True  # the masks are then applied in place
    return release.sampler_v2, False


_COPY = 4  # a float32 copy of the logits


def _library_bytes(device: Device) -> int:
    """Return cuBLAS's workspace: torch's default for the capability."""
    return 32 * MIB if device.capability in ((9, 0), (10, 0)) else 8 * MIB + MIB // 8
