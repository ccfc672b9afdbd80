"""CUDA graphs: how many a release captures, what it estimates for them, and what they really take.

The engine prints an estimate, and from 0.20 (first runner) and 0.29 (second) takes it out of the pool; the real cost
lies on top where it does not. Both were fitted on public logs of one release on one card, as
profiles/engines/vllm.yaml says.
"""

from __future__ import annotations

from kvplan.engine.vllm.releases import Release
from kvplan.record import dataclass
from kvplan.units import GIB

_SMALL = (1, 2, 4)
_STEP_8_END, _STEP_16 = 256, 16
_MAX, _MAX_BLACKWELL = 512, 1024


@dataclass(frozen=True, slots=True)
class Captures:
    """The batch sizes that are captured: as pieces between attention layers, and whole (decode batches only)."""

    pieces: int
    whole: int


def captures(sequences: int, tokens: int, speculative: int, capability: tuple[int, int], release: Release) -> Captures:
    """Return how many graphs the default mode captures.

    Sizes go up to twice the decode batch and to 512 (1024 on Blackwell): 1, 2, 4, then steps of 8 to 256, then of 16.
    """
    widest = _MAX_BLACKWELL if capability[0] == 10 and release.graphs_to_1024 else _MAX  # SM 10.x
    decode = sequences * (1 + speculative)
    limit = min(2 * decode, widest, tokens)
    sizes = [size for size in _SMALL if size <= limit]
    sizes += [*range(8, min(limit + 1, _STEP_8_END), 8), *range(_STEP_8_END, limit + 1, _STEP_16)]
    return Captures(len(sizes), sum(size <= decode for size in sizes))


@dataclass(frozen=True, slots=True)
class GraphMemory:
    """Bytes for all graphs of a rank: what the engine estimates, and what they take, each with its interval."""

    estimate: int
    estimate_low: int
    estimate_high: int
    actual: int
    actual_low: int
    actual_high: int


def graph_memory(release: Release, count: Captures, layers: int, *, mixture: bool, v2: bool) -> GraphMemory:
    """Return the graph memory of a rank with so many layers; `mixture`: experts or MLA, whose kernels keep more."""
    fit = release.graph_fit
    share = (count.pieces + count.whole) / fit["graphs"]
    if v2 and release.graphs_charged_v2:
        estimate = fit["v2_each_gib"] * count.whole
    else:
        # the estimate has a part of its own, however few graphs there are
        estimate = fit["base_gib"] + share * (fit["layer_gib"] * layers + fit["mixture_gib"] * mixture)
    actual = share * (fit["real_base_gib"] + fit["real_layer_gib"] * layers + fit["real_mixture_gib"] * mixture)
    low, high = fit["interval_v2"] if v2 else fit["interval"]
    return GraphMemory(
        round(estimate * GIB),
        round(estimate * low * GIB),
        round(estimate * high * GIB),
        round(actual * GIB),
        round(actual * low * GIB),
        round(actual * high * GIB),
    )
