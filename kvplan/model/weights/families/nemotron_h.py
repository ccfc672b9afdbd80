"""Nemotron-H: layers that are one of a Mamba-2 state, attention, a feed-forward layer or experts."""

from __future__ import annotations

from kvplan.model.spec import Mamba2
from kvplan.model.weights.blocks import attention, experts, router, two_layers
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.mixers import attending, mamba2, mixer_layers
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text


@weighs("NemotronHForCausalLM", "NemotronHPuzzleForCausalLM")
def nemotron_h(text: Text) -> list[Part]:
    """Return the parts of a Nemotron-H: each layer is one of a state, attention, a feed-forward layer or experts."""
    hidden = text.hidden
    states, mixer = mixer_layers(text, Mamba2)
    kinds = _nemotron_kinds(text)
    forward = [i for i in text.layers if kinds[i] == "mlp"]
    moe = [i for i in text.layers if kinds[i] == "moe"]
    at, bias = text.at(), text.flag("mlp_bias")
    names = ("mixer.q_proj", "mixer.k_proj", "mixer.v_proj", "mixer.o_proj")
    ups = ("mixer.up_proj", "mixer.down_proj")
    return [
        *ends(text, norm="model.norm_f"),
        *(
            mamba2(text.at(layers=states).under("mixer"), hidden, mixer, bias=text.flag("use_bias"),
                   conv_bias=text.flag("use_conv_bias", default=True))
            if mixer is not None else []
        ),
        *attention(text.at(layers=attending(text)), text, names=names),
        *two_layers(text.at(layers=forward), hidden, text.intermediate, bias=bias, names=ups),
        *_nemotron_experts(text.at(layers=moe), text),
        *at.norm("norm", hidden),
    ]  # fmt: skip


def _nemotron_kinds(text: Text) -> list[str]:
    """Return what each layer is; the pattern's letters are M, *, - and E."""
    config = text.config
    pattern = config.maybe_text("hybrid_override_pattern")
    letters = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
    if pattern is not None:
        given = [letters[letter] for letter in pattern if letter in letters]
    else:
        given = config.maybe_texts("layers_block_type", "layer_types") or []
    if len(given) != len(text.layers):
        raise config.contradicts("hybrid_override_pattern", "num_hidden_layers", why="another number of layers")
    return ["moe" if kind in ("moe", "sparse") else kind for kind in given]


def _nemotron_experts(at: Scope, text: Text) -> list[Part]:
    config, hidden = text.config, text.hidden
    count, latent = config.integer("n_routed_experts"), config.maybe_integer("moe_latent_size")
    shared = (config.maybe_integer("n_shared_experts", low=0) or 0) * (
        config.maybe_integer("moe_shared_expert_intermediate_size") or 0
    )
    width = config.integer("moe_intermediate_size")
    parts = [
        *router(at, count, hidden, name="mixer.gate", correction="mixer.gate.e_score_correction_bias"),
        *experts(at, count, latent or hidden, width, within="mixer.experts.{}", names=("up_proj", "down_proj")),
    ]
    if shared:
        parts += two_layers(at.under("mixer.shared_experts"), hidden, shared, names=("up_proj", "down_proj"))
    if latent:
        parts.append(at.linear("mixer.fc1_latent_proj", latent, hidden, Role.REPLICATED))
        parts.append(at.linear("mixer.fc2_latent_proj", hidden, latent, Role.REPLICATED))
    return parts
