"""The forward pass of the profile run: the widest moment inside a layer, and what mixtures keep beside it.

All figures are elements a token unless they say bytes. Source: the tensors that are alive while vLLM's own model
classes run on pretend tensors (0.11, 0.19, 0.33), re-derived as sums of widths; for dense gated models on one rank the
plan of the compiled graph, which three public logs confirm. Mixtures, MLA and models split over ranks are taken as
they run uncompiled, an upper bound.
"""

from __future__ import annotations

from kvplan.engine.vllm.activation.widths import Attention, LatentAttention, Widths
from kvplan.model.spec import GatedDeltaNet, KimiDelta, Mamba2
from kvplan.record import dataclass

_PREFILL_WORKSPACE = 65536  # tokens, the most that the chunked-prefill workspace of MLA holds
_REQUEST_BLOCKS = 64  # tokens a request, its least


@dataclass(frozen=True, slots=True)
class Step:
    """What the profile run pushes through: tokens, requests, the length limit, ranks, and the release's habits.

    `fused_norms`: from 0.22 a fused addition and norm returns two tensors. `workspace_kept`, `latent_workspace`: see
    the sections of profiles/engines/vllm.yaml. `state_block`: tokens a block of the states that prefill hands out;
    None: it hands out none.
    """

    tokens: int
    requests: int
    max_model_len: int
    tp: int
    item: int
    fused_norms: bool
    workspace_kept: bool
    latent_workspace: bool
    state_block: int | None


def forward_bytes(widths: Widths, step: Step) -> int:
    """Return the peak of the forward pass, in bytes, with a mixture's workspace where it is kept."""
    unit = step.tokens * step.item
    moment = _moments(widths, step) * unit
    if widths.latent is not None:
        latent = (_alive(step) - 1) * widths.hidden + _in_latent(widths.latent)
        moment = max(moment, latent * unit + _latent_workspace_bytes(widths.latent, step))
    inside = _alive(step) * widths.hidden * unit + _workspace_bytes(widths, step)
    return max(moment + kept_workspace_bytes(widths, step), inside)


def kept_workspace_bytes(widths: Widths, step: Step) -> int:
    """Return the workspace that stays after the run, in bytes: of mixture layers or of states, whichever is larger."""
    kept = widths.experts is not None and widths.experts.kept and step.workspace_kept
    return max(_workspace_bytes(widths, step) if kept else 0, _state_workspace_bytes(widths, step))


def _state_workspace_bytes(widths: Widths, step: Step) -> int:
    """Return the room for the states of a gated delta net at each block's end, in bytes (float32)."""
    mixer = widths.mixer
    if step.state_block is None or not isinstance(mixer, GatedDeltaNet):
        return 0
    return -(-step.tokens // step.state_block) * (mixer.v_heads // step.tp) * mixer.v_dim * mixer.k_dim * 4


def _workspace_bytes(widths: Widths, step: Step) -> int:
    """Return the two buffers of a mixture layer for the routed tokens' inputs and outputs, in bytes."""
    experts = widths.experts
    if experts is None:
        return 0
    if not experts.kept:
        return step.tokens * experts.per_token * (experts.width + experts.hidden) * step.item
    wide = max(widths.matrices - 1, 1) * experts.width
    each = max(wide, experts.hidden) + max(experts.width, experts.hidden)
    return step.tokens * experts.per_token * each * step.item


def _latent_workspace_bytes(latent: LatentAttention, step: Step) -> int:
    """Return the throw-away tensor of MLA: keys and values of all heads for a workspace of tokens."""
    if not step.latent_workspace:
        return 0
    tokens = min(max(8 * step.max_model_len, _REQUEST_BLOCKS * step.requests), _PREFILL_WORKSPACE)
    return tokens * latent.heads * (latent.nope + latent.value) * step.item


def _moments(widths: Widths, step: Step) -> int:
    """Return the widest moment in elements a token, MLA's apart: in an MLP, in attention, or in a recurrent mixer."""
    hidden, alive = widths.hidden, _alive(step)
    mixing = _in_mixer(widths, step.tp)
    recurrent = (alive - isinstance(widths.mixer, Mamba2)) * hidden + mixing if mixing else 0
    if widths.experts is None:
        return max(_dense_moment(widths, step), recurrent, _rotating(widths, alive))
    mlp = alive * hidden + widths.matrices * max(widths.mlp, widths.experts.shared)
    attention = widths.attention
    attending = (alive - attention.gated) * hidden + _in_attention(attention) if attention is not None else 0
    return max(mlp, attending, recurrent)


def _dense_moment(widths: Widths, step: Step) -> int:
    """Return the moment inside a dense MLP; on one rank a gated one is compiled, which saves copies of the state."""
    hidden, mlp = widths.hidden, widths.mlp
    if step.tp == 1 and widths.matrices == _GATED:
        return 3 * hidden + 3 * mlp
    alive = 4 if step.fused_norms else 3
    reduced = (alive + 2) * hidden + mlp if step.tp > 1 else 0  # the sum over ranks arrives in a tensor of its own
    return max(alive * hidden + widths.matrices * mlp, reduced)


_GATED = 3


def _rotating(widths: Widths, alive: int) -> int:
    """Return the moment in attention where positions are stretched by long factors, which no fused kernel applies."""
    attention = widths.attention
    if attention is None or not widths.long_factors:
        return 0
    projected = attention.query + attention.key + attention.value
    return (alive - 1) * widths.hidden + projected + 4 * attention.query + attention.key


def _alive(step: Step) -> int:
    """Return how many tensors of the hidden width a mixture model holds between two layers."""
    return 5 if step.fused_norms else 3


def _in_attention(attention: Attention) -> int:
    """Queries, keys and values as they come out of one matrix, the output, and the normed copies."""
    query, key = attention.query, attention.key
    if attention.gated:
        return 2 * query + key + attention.value + 5 * query + key
    return query + key + attention.value + query + (query + key if attention.normed else 0)


def _in_latent(latent: LatentAttention) -> int:
    """Queries, the output, and the narrow projections before the heads with their norms."""
    queries = latent.heads * (latent.nope + latent.rope)
    narrow = latent.rank + latent.rope + latent.rank + 2 * latent.query_rank
    return queries + latent.heads * latent.value + narrow


def _in_mixer(widths: Widths, tp: int) -> int:
    """Return what a recurrent mixer holds beside the hidden states; 0 where it is less than an MLP.

    Projections, what the convolution returns, and copies by head; Mamba 2 may norm in float32. The gated delta net of
    models whose attention has a gated output has another class, whose MLP or attention is wider.
    """
    mixer = widths.mixer
    match mixer:
        case Mamba2():
            projected = 2 * mixer.inner + 2 * mixer.groups * mixer.state + mixer.heads
            normed = 5 if mixer.groups > 1 else 2  # several groups have no fused norm
            return (projected + normed * mixer.inner) // tp
        case KimiDelta():
            return 6 * mixer.heads * mixer.head_dim // tp
        case GatedDeltaNet() if widths.attention is None or not widths.attention.gated:
            keys, values = mixer.k_heads * mixer.k_dim, mixer.v_heads * mixer.v_dim
            return (6 * keys + 7 * values) // tp
        case _:
            return 0
