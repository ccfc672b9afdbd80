"""Muse Glimmer: a gate on attention's output and four norms a layer; a tower whose feed-forward layers are whole."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.weights.dense import FOUR_NORMS, dense
from kvplan.model.weights.families import weighs
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import language_model, section, tower


@weighs("MuseGlimmerForCausalLM")
def muse_glimmer(text: Text) -> list[Part]:
    """Return the parts of a Muse Glimmer's language model."""
    width = text.shape.heads * text.shape.head_dim
    gate = text.at().linear("self_attn.output_gate_proj", width, text.hidden)
    return [*dense(text, norms=FOUR_NORMS, qkv_bias=text.flag("attention_bias")), gate]


@weighs("MuseGlimmerForConditionalGeneration")
def multimodal(text: Text) -> list[Part]:
    """Return the parts of a Muse Glimmer."""
    root, projector = text.config.root, tower("vision_adapter")
    merged, inner = root.integer("out_hidden_size"), root.integer("projector_hidden_size")
    return [
        *_tower(section(text)),
        projector.linear("c_fc", inner, merged, Role.TOWER),
        projector.linear("c_proj", inner, inner, Role.TOWER),
        tower("").linear("vision_projection", text.hidden, inner, Role.TOWER),
        *language_model(text, "MuseGlimmerForCausalLM"),
    ]


def _tower(config: Fields) -> list[Part]:
    at, hidden, patch = tower("vision_encoder"), config.integer("hidden_size"), config.integer("patch_size")
    layers = at.under("transformer.{}").copies(config.integer("num_hidden_layers"))
    width, names = config.integer("intermediate_size"), ("attn.q_proj", "attn.k_proj", "attn.v_proj")
    positions = config.integer("pos_emb_height") * config.integer("pos_emb_width")
    return [
        at.tensor("positional_embedding_vlm", positions, hidden),
        at.linear("conv1_linear", hidden, 3 * config.integer("patch_temporal") * patch * patch, Role.TOWER),
        *at.norms(hidden, "ln_pre", "ln_post", bias=True),
        *(layers.linear(name, hidden, hidden, bias=True, leads=name == names[0]) for name in names),
        layers.linear("attn.o_proj", hidden, hidden, Role.ROW, bias=True),
        layers.linear("mlp.c_fc", width, hidden, Role.TOWER, bias=True),
        layers.linear("mlp.c_proj", hidden, width, Role.TOWER, bias=True),
        *layers.norms(hidden, "ln_1", "ln_2", bias=True),
    ]
