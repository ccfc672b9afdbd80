"""Selective state spaces: Mamba, Falcon-Mamba, Mamba-2, and Jamba, which has attention and experts between them."""

from __future__ import annotations

from kvplan.model.spec import Mamba1, Mamba2
from kvplan.model.weights.blocks import attention, experts, gated, router
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.mixers import attending, mamba1, mamba2, mixer_layers, needed
from kvplan.model.weights.sparse import rest
from kvplan.model.weights.tensors import Part
from kvplan.model.weights.text import Text


@weighs("MambaForCausalLM", "FalconMambaForCausalLM")
def mamba(text: Text) -> list[Part]:
    """Return the parts of a Mamba, or of a Falcon-Mamba, whose norms have no weights."""
    at, hidden, config = text.at("backbone.layers.{}"), text.hidden, text.config
    _, mixer = mixer_layers(text, Mamba1)
    rank = config.raw("time_step_rank")
    rank = config.integer("time_step_rank") if isinstance(rank, int) else -(-hidden // 16)
    return [
        *ends(text, embedding="backbone.embeddings", norm="backbone.norm_f"),
        *mamba1(
            at.under("mixer"), hidden, needed(config, mixer, "state_size"), rank,
            bias=text.flag("use_bias"), conv_bias=text.flag("use_conv_bias", default=True),
        ),
        *at.norm("norm", hidden),
    ]  # fmt: skip


@weighs("Mamba2ForCausalLM")
def mamba_2(text: Text) -> list[Part]:
    """Return the parts of a Mamba-2."""
    at, hidden, config = text.at("backbone.layers.{}"), text.hidden, text.config
    _, mixer = mixer_layers(text, Mamba2)
    return [
        *ends(text, embedding="backbone.embeddings", norm="backbone.norm_f"),
        *mamba2(
            at.under("mixer"), hidden, needed(config, mixer, "state_size"),
            bias=text.flag("use_bias"), conv_bias=text.flag("use_conv_bias", default=True),
        ),
        *at.norm("norm", hidden),
    ]  # fmt: skip


@weighs("JambaForCausalLM", "JambaForSequenceClassification")
def jamba(text: Text) -> list[Part]:
    """Return the parts of a Jamba: attention and experts each in layers of a period and an offset."""
    hidden, config = text.hidden, text.config
    states, mixer = mixer_layers(text, Mamba1)
    count = config.integer("num_experts")
    period, offset = config.integer("expert_layer_period"), config.integer("expert_layer_offset", low=0)
    moe = [i for i in text.layers if count > 1 and i % period == offset]
    at, inside = text.at(), text.at(layers=states).under("mamba")
    found = needed(config, mixer, "mamba_d_state")
    rank = config.raw("mamba_dt_rank")
    rank = config.integer("mamba_dt_rank") if isinstance(rank, int) else -(-hidden // 16)
    names = ("feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj")
    return [
        *ends(text, norm="model.final_layernorm", scored_too=True, tied=False),
        *mamba1(
            inside, hidden, found, rank,
            bias=text.flag("mamba_proj_bias"), conv_bias=text.flag("mamba_conv_bias", default=True),
        ),
        *inside.norm("dt_layernorm", rank),
        *inside.norms(found.state, "b_layernorm", "c_layernorm"),
        *attention(text.at(layers=attending(text)), text),
        *gated(text.at(layers=rest(text, moe)), hidden, text.intermediate, names=names),
        *router(text.at(layers=moe), count, hidden, name="feed_forward.router"),
        *experts(text.at(layers=moe), count, hidden, text.intermediate, within="feed_forward.experts.{}"),
        *at.norms(hidden, "input_layernorm", "pre_ff_layernorm"),
    ]  # fmt: skip
