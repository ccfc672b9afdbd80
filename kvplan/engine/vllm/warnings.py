"""What a plan says beside its verdict: what was assumed, and what may still go wrong."""

from __future__ import annotations

from kvplan.engine.vllm.backends.rocm import SPARSE_MLA, UNIFIED
from kvplan.engine.vllm.launch import Launch
from kvplan.engine.vllm.room import later_warning
from kvplan.hardware import Gpu
from kvplan.model.quantization import missing_quantization
from kvplan.planner import Budget, Note


def warnings_of(launch: Launch, budget: Budget) -> list[Note]:
    """Return the warnings of a launch, the release and the card first."""
    model, gpu = launch.model, launch.gpu
    found = [note for note in (_release(launch), later_warning(launch, budget)) if note is not None]
    if gpu is not None and launch.device.assumed:
        found.append(_amd(launch, gpu))
    named = missing_quantization(model)
    if named is not None:
        found.append(
            Note(
                "quantization_missing",
                f"the name says {named}, but no quantization section was found: weights and KV dtype may be smaller",
                "hf_quant_config.json belongs beside config.json",
            )
        )
    if gpu is not None and gpu.assumed_among:
        among = ", ".join(gpu.assumed_among)
        found.append(Note("gpu_assumed", f"several cards answer to that name; {gpu.name} is assumed", among))
    found += [
        Note("field_assumed", f"{a.name} is not in the config: {a.value} is assumed", a.source) for a in model.assumed
    ]
    return found


def _amd(launch: Launch, gpu: Gpu) -> Note:
    """Say what is assumed of an AMD card, and of AITER where that decides the block."""
    told = f"all but the attention backends of {gpu.label}, which are ROCm's of vLLM 0.33, is modelled as on Hopper"
    if not {UNIFIED, SPARSE_MLA} & {*launch.backends}:
        return Note("backend_assumed", told)
    return Note("backend_assumed", told, "with AITER installed, as in AMD's image, and VLLM_ROCM_USE_AITER off")


def _release(launch: Launch) -> Note | None:
    release = launch.release
    if release.stands_for is None:
        return None
    return Note(
        "release_assumed",
        f"kvplan does not know vLLM {release.stands_for[:40]}: it is planned as {release.version}",
        "the intervals are twice as wide",
    )
