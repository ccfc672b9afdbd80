"""What a start-up charges beside the model: buffers, the profile run's peak, what torch does not hold, CUDA graphs."""

from __future__ import annotations

from kvplan.engine.vllm.activation import Peak, Run, profile_peak
from kvplan.engine.vllm.activation.images import largest_picture, takes_pictures
from kvplan.engine.vllm.launch import Launch
from kvplan.engine.vllm.persistent import persistent_line
from kvplan.engine.vllm.residue import non_torch, start_loss
from kvplan.ledger import Line
from kvplan.units import GIB, MIB, gib

_UNKNOWN_ENCODER = GIB // 2  # the most that an encoder of an unknown family was seen to add
_FLOAT32 = GIB // 2  # the only log in float32 prints 0.44 GiB more than its model classes allocate
_LARGEST_L2 = 128 * MIB
_EAGER = "no graphs under --enforce-eager"
_PHASES = {
    "forward": "the widest step of {tokens:,} batched tokens",
    "logits": "logits of {rows:,} sequences",
    "sampler": "the sampler over {rows:,} sequences",
}


def run_lines(launch: Launch, stage: int) -> list[Line]:
    """Return what the start-up of a pipeline stage charges beside the weights, in the order of the ledger."""
    args, run = launch.args, launch.run(stage)
    if args.activations is not None:
        lines = [Line.certain("activations", args.activations, "given", "--activations")]
    else:
        peak = profile_peak(launch.model, launch.settings, launch.device, launch.release, run)
        lines = [persistent_line(launch, run, peak), *_activations(launch, run, peak), *_cold_start(launch)]
    return [*lines, _non_torch(launch), _graphs(launch)]


def _activations(launch: Launch, run: Run, peak: Peak) -> list[Line]:
    """Return the peak of the profile run; what it keeps is charged elsewhere from 0.27 on, pictures by themselves."""
    settings, consumed = launch.settings, launch.release.budget == "consumed"
    kept = peak.kept if consumed else 0
    pictures, known = _pictures(launch, run, peak)
    size = peak.bytes - kept + (0 if consumed else pictures)
    # printed peaks of 0.11 to 0.19 are met to the digit; of the sampler's pass of 0.33 there is no log yet
    margin = max(size // (20 if consumed else 100), GIB // 50)
    low = min(size - margin, peak.without_autotuning - kept)
    why = _PHASES[peak.leads].format(tokens=settings.max_num_batched_tokens, rows=settings.max_num_seqs)
    unknown = 0 if known or consumed else _UNKNOWN_ENCODER
    unknown += (_FLOAT32 if settings.dtype == "float32" else 0) + _unknown_cache(launch)
    found = [Line("activations", size, max(0, low), size + margin + unknown, "modelled", why)]
    if consumed and takes_pictures(launch.model) and run.stage == 0:
        most = pictures + (pictures // 4 if known else _UNKNOWN_ENCODER)
        told = "pictures of the profile run" + ("" if known else ", of unknown size")
        found.append(Line("encoder_cache", pictures, pictures // 2, most, "modelled", told))
    return found


def _unknown_cache(launch: Launch) -> int:
    """Return how much larger the L2 cache may be, with whose size the peak grows where a forward pass leads."""
    known = launch.device.l2_mib
    if known is None:
        return _LARGEST_L2
    return 0 if launch.gpu is None or launch.gpu.is_sure("l2_mib") else round(known * MIB) // 2


def _pictures(launch: Launch, run: Run, peak: Peak) -> tuple[int, bool]:
    """Return what the pictures of the profile run add to the peak of the first stage, and whether it is known.

    They stay until the language model has run; an encoder that is wider than that sets the peak by itself.
    """
    if not takes_pictures(launch.model) or run.stage:
        return 0, True
    picture = largest_picture(launch.model, run.tp)
    if picture is None:
        return 0, False
    tokens, item = launch.settings.max_num_batched_tokens, launch.settings.item_size
    stay = picture.bytes_of(tokens, launch.model.hidden_size, item, pixels=launch.release.pixels_kept)
    return max(stay, picture.encoding * item - (peak.bytes - peak.kept)), True


def _cold_start(launch: Launch) -> list[Line]:
    if not launch.args.cold:
        return []
    size, low, high = (round(figure * GIB) for figure in launch.release.cold_start["gib"])
    return [Line("cold_start", size, low, high, "modelled", launch.release.cold_start["why"])]


def _non_torch(launch: Launch) -> Line:
    if launch.args.non_torch is not None:
        return Line.certain("non_torch", launch.args.non_torch, "given", "--non-torch")
    found = non_torch(launch.release, launch.device, launch.ranks)
    size, low, high = found.bytes, found.low, found.high
    if launch.release.snapshot == "none" and launch.gpu is not None:
        loss = start_loss(launch.release, launch.gpu, launch.ranks)  # without a snapshot, what was gone is charged too
        size, low, high = size + loss.bytes, low + loss.low, high + loss.high
    return Line("non_torch", size, low, high, "modelled", found.why)


def _graphs(launch: Launch) -> Line:
    """Return the estimate that is taken out of the pool; where none is, the ledger tells the real cost."""
    args = launch.args
    if args.cuda_graphs is not None:
        return Line.certain("cuda_graphs", args.cuda_graphs, "given", "--cuda-graphs")
    if args.enforce_eager:
        return Line.certain("cuda_graphs", 0, "exact", _EAGER)
    memory = launch.graphs()
    if not launch.release.graphs_charged(v2=launch.settings.runner_v2):
        told = f"not charged: about {gib(memory.actual, 1)} lie on top of the budget"
        return Line.certain("cuda_graphs", 0, "exact", told)
    told = "the engine's own estimate"
    return Line("cuda_graphs", memory.estimate, memory.estimate_low, memory.estimate_high, "modelled", told)
