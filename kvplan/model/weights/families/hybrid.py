"""States beside attention: Falcon-H1, Granite 4, LFM2."""

from __future__ import annotations

from kvplan.model.spec import Mamba2, ShortConv
from kvplan.model.weights.blocks import attention, experts, gated, rope
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.families.mixtral import granite_experts, granite_shared
from kvplan.model.weights.mixers import attending, mamba2, mixer_layers, needed, short_conv
from kvplan.model.weights.sparse import rest
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text


@weighs("FalconH1ForCausalLM")
def falcon_h1(text: Text) -> list[Part]:
    """Return the parts of a Falcon-H1: a state and attention side by side in every layer."""
    at, hidden, config = text.at(), text.hidden, text.config
    _, mixer = mixer_layers(text, Mamba2)
    found = needed(config, mixer, "mamba_d_state")
    names = ("feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj")
    bias = text.flag("attention_bias")
    width = found.groups * found.state
    multipliers: list[Part] = [
        at.tensor("mamba.mup_vector", rows, role=role, heads=found.groups, holder="engine")
        for rows, role in (
            (2 * found.inner, Role.COLUMN), (width, Role.KV), (width, Role.KV), (found.heads, Role.COLUMN),
        )
    ]  # fmt: skip
    return [
        *ends(text, norm="model.final_layernorm"),
        *attention(at, text, bias=bias, out_bias=bias),
        *mamba2(
            at.under("mamba"), hidden, found, bias=text.flag("mamba_proj_bias"),
            conv_bias=text.flag("mamba_conv_bias", default=True), norm=text.flag("mamba_rms_norm"),
        ),
        *gated(at, hidden, text.intermediate, bias=text.flag("mlp_bias"), names=names),
        *at.norms(hidden, "input_layernorm", "pre_ff_layernorm"),
        *rope(text),
        *multipliers,
    ]  # fmt: skip


@weighs("GraniteMoeHybridForCausalLM")
def granite_hybrid(text: Text) -> list[Part]:
    """Return the parts of a Granite 4 hybrid: states or attention, experts and a shared expert."""
    hidden, config = text.hidden, text.config
    states, mixer = mixer_layers(text, Mamba2)
    at, bias = text.at(), text.flag("attention_bias")
    attends = attending(text)
    return [
        *ends(text),
        *(
            mamba2(text.at(layers=states).under("mamba"), hidden, mixer, bias=text.flag("mamba_proj_bias"),
                   conv_bias=text.flag("mamba_conv_bias", default=True))
            if mixer is not None else []
        ),
        *attention(text.at(layers=attends), text, bias=bias, out_bias=bias),
        *granite_experts(at, text),
        *granite_shared(at, text),
        *at.norms(hidden, *TWO_NORMS),
        *(rope(text) if attends and config.maybe_text("position_embedding_type") == "rope" else []),
    ]  # fmt: skip


@weighs("Lfm2ForCausalLM", "Lfm2MoeForCausalLM")
def lfm2(text: Text) -> list[Part]:
    """Return the parts of an LFM2: short convolutions or attention; some have experts after a few dense layers."""
    hidden, config = text.hidden, text.config
    convs, mixer = mixer_layers(text, ShortConv)
    attends = text.at(layers=attending(text))
    names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj")
    count = config.maybe_integer("num_experts", low=0) or 0 if text.architecture == "Lfm2MoeForCausalLM" else 0
    moe = [i for i in text.layers if count and i >= config.integer("num_dense_layers", low=0)]
    w123 = ("feed_forward.w1", "feed_forward.w3", "feed_forward.w2")
    parts = [
        *ends(text, norm="model.embedding_norm", tied=text.flag("tie_embedding", "tie_word_embeddings", default=True)),
        *(short_conv(text.at(layers=convs).under("conv"), hidden, mixer, bias=text.flag("conv_bias")) if mixer else []),
        *attention(attends, text, names=names),
        *attends.norms(text.shape.head_dim, "self_attn.q_layernorm", "self_attn.k_layernorm"),
        *gated(text.at(layers=rest(text, moe)), hidden, _lfm2_width(text, count), names=w123),
        *text.at().norms(hidden, "operator_norm", "ffn_norm"),
        *rope(text),
    ]
    if moe:
        at = text.at(layers=moe)
        parts.append(at.linear("feed_forward.gate", count, hidden, Role.REPLICATED))
        if text.flag("use_expert_bias"):
            parts.append(at.tensor("feed_forward.expert_bias", count, dtype="float32"))
        parts += experts(
            at, count, hidden, config.integer("moe_intermediate_size"), within="feed_forward.experts.{}",
            names=("w1", "w3", "w2"),
        )  # fmt: skip
    return parts


_MOST_TIMES = 1024


def _lfm2_width(text: Text, count: int) -> int:
    """Return the width of the dense layers: two thirds of block_ff_dim, rounded up, where the config says so."""
    config = text.config
    width = config.maybe_integer("block_ff_dim") or config.integer("intermediate_size")
    if count or not text.flag("block_auto_adjust_ff_dim", default=True):
        return width
    width = 2 * width // 3
    factor = config.maybe_number("block_ffn_dim_multiplier")
    if factor is not None:
        if not 0 < factor < _MOST_TIMES:
            raise config.bad("block_ffn_dim_multiplier", f"a number above 0 and below {_MOST_TIMES}", factor)
        width = int(factor * width)
    unit = config.integer("block_multiple_of", default=1)
    return unit * -(-width // unit)
