"""Llama 4: experts in every interleave_moe_layer_step-th layer with one shared expert each, and a vision tower."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.weights.blocks import attention, experts, gated, rope, router
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.sparse import rest
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import encoder_layer, language_model, section, tower, unquantised


@weighs("Llama4ForCausalLM")
def llama4(text: Text) -> list[Part]:
    """Return the parts of a Llama 4's language model."""
    at, hidden, config = text.at(), text.hidden, text.config
    count, step = config.integer("num_local_experts"), config.integer("interleave_moe_layer_step", low=0)
    moe = [i for i in text.layers if step and (i + 1) % step == 0]
    sparse, dense = text.at(layers=moe), rest(text, moe)
    names = ("feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj")
    shared = tuple(name.replace("feed_forward.", "feed_forward.shared_expert.") for name in names)
    bias = text.flag("attention_bias")
    return [
        *ends(text),
        *attention(at, text, bias=bias, out_bias=bias),
        *router(sparse, count, hidden, name="feed_forward.router"),
        *experts(sparse, count, hidden, text.intermediate, within="feed_forward.experts.{}"),
        *gated(sparse, hidden, text.intermediate, names=(shared[0], shared[1], shared[2])),
        *gated(text.at(layers=dense), hidden, config.integer("intermediate_size_mlp"), names=names),
        *at.norms(hidden, *TWO_NORMS),
        *rope(text),
    ]


@weighs("Llama4ForConditionalGeneration")
def multimodal(text: Text) -> list[Part]:
    """Return the parts of a Llama 4: its vision tower, the adapter, a projector and the language model."""
    vision = section(text)
    projector = tower("multi_modal_projector")
    out = vision.integer("vision_output_dim")
    return [
        *unquantised([*_tower(vision), projector.linear("linear_1", text.hidden, out)]),
        *language_model(text, "Llama4ForCausalLM"),
    ]


def _tower(config: Fields) -> list[Part]:
    hidden, width = config.integer("hidden_size"), config.integer("intermediate_size")
    patch, heads = config.integer("patch_size"), config.integer("num_attention_heads")
    patches = (config.integer("image_size") // patch) ** 2
    at = tower("vision_model")
    layers = at.under("model.layers.{}").copies(config.integer("num_hidden_layers"))
    inner, out = config.integer("projector_input_dim"), config.integer("projector_output_dim")
    return [
        at.tensor("class_embedding", hidden),
        at.tensor("positional_embedding_vlm", patches + 1, hidden),
        at.linear("patch_embedding.linear", hidden, 3 * patch * patch),
        *at.norms(hidden, "layernorm_pre", "layernorm_post", bias=True),
        *encoder_layer(
            layers, hidden, width, out="self_attn.o_proj", norms=("input_layernorm", "post_attention_layernorm")
        ),
        at.linear("vision_adapter.mlp.fc1", inner, width),
        at.linear("vision_adapter.mlp.fc2", out, inner, Role.ROW),
        at.table("rotary_emb.cos_sin_cache", patches + 1, 1, hidden // heads // 2, dtype="complex64"),
    ]
