"""The plain decoder: the same attention and feed-forward layer all the way up, with the options that families take."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.model.weights.blocks import GATED, QKVO, attention, gated, rope, two_layers
from kvplan.model.weights.ends import ends
from kvplan.model.weights.rope import rotated
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part
from kvplan.model.weights.text import Text

TWO_NORMS = ("input_layernorm", "post_attention_layernorm")
FOUR_NORMS = (*TWO_NORMS, "pre_feedforward_layernorm", "post_feedforward_layernorm")


def dense(
    text: Text,
    *,
    norms: Sequence[str] = TWO_NORMS,
    norm_bias: bool = False,
    qkv_bias: bool = False,
    out_bias: bool = False,
    mlp_bias: bool = False,
    head_norms: bool = False,
    row_norms: bool = False,
    feed_forward: tuple[str, ...] = GATED,
    projections: tuple[str, str, str, str] = QKVO,
    head_bias: bool = False,
    last_norm: str = "model.norm",
    tied: bool | None = None,
    tables: Sequence[Part] | None = None,
) -> list[Part]:
    """Return the parts of a decoder of equal layers.

    `head_norms`: query and key are normalised head by head; `row_norms`: over all their channels, on every rank.
    `feed_forward` has three names (gated) or two; `tables` stand in for the rope table.
    """
    at, hidden = text.at(), text.hidden
    parts = [
        *ends(text, norm=last_norm, norm_bias=norm_bias, head_bias=head_bias, tied=tied),
        *attention(at, text, bias=qkv_bias, out_bias=out_bias, names=projections),
        *at.norms(hidden, *norms, bias=norm_bias),
    ]
    if head_norms:
        parts += at.norms(text.shape.head_dim, "self_attn.q_norm", "self_attn.k_norm")
    if row_norms:
        parts += at.norm("self_attn.q_norm", text.shape.heads * text.shape.head_dim)
        parts += at.norm("self_attn.k_norm", text.shape.kv_heads * text.shape.head_dim)
    if len(feed_forward) == 3:
        gate, up, down = feed_forward
        parts += gated(at, hidden, text.intermediate, bias=mlp_bias, names=(gate, up, down))
    else:
        up, down = feed_forward
        parts += two_layers(at, hidden, text.intermediate, bias=mlp_bias, names=(up, down))
    return [*parts, *(rope(text) if tables is None else tables)]


def frequencies(text: Text, *, partial: float | None = None, kinds: int = 1) -> list[Part]:
    """Return what vLLM's Transformers backend keeps in place of a rope table: inverse frequencies, and their originals.

    `kinds` is the number of ropes, one for each layer type that has its own.
    """
    section = text.config.maybe_section("rope_parameters", "rope_scaling")
    width = rotated(text.config, section, text.shape.head_dim, partial) // 2
    return [Scope().table(f"rotary_emb.inv_freq.{i}", width) for i in range(2 * kinds)]
