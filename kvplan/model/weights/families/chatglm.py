"""ChatGLM 2 to 4 in its own layout, and GLM-4V."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.weights.blocks import attention, fused
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import encoder_layer, section, tower


@weighs("ChatGLMModel", "ChatGLMForConditionalGeneration")
def chatglm(text: Text) -> list[Part]:
    """Return the parts of a ChatGLM; half of each head is rotated."""
    at, hidden, config = text.at("transformer.encoder.layers.{}"), text.hidden, text.config
    norm_bias, bias = not text.flag("rmsnorm", default=True), text.flag("add_bias_linear")
    names = fused("self_attention.query_key_value", "self_attention.dense")
    width = config.integer("ffn_hidden_size")
    last = "transformer.encoder.final_layernorm" if text.flag("post_layer_norm", default=True) else ""
    return [
        *ends(
            text, embedding="transformer.embedding.word_embeddings", norm=last, norm_bias=norm_bias,
            head="transformer.output_layer",
        ),
        *attention(at, text, bias=bias or text.flag("add_qkv_bias"), out_bias=bias, names=names),
        at.linear("mlp.dense_h_to_4h", 2 * width, hidden, bias=bias),
        at.linear("mlp.dense_4h_to_h", hidden, width, Role.ROW, bias=bias),
        *at.norms(hidden, "input_layernorm", "post_attention_layernorm", bias=norm_bias),
        *rope_table(config, text.shape.head_dim // 2, positions=config.maybe_integer("seq_length")),
    ]  # fmt: skip


@weighs("GLM4VForCausalLM")
def glm4v(text: Text) -> list[Part]:
    """Return the parts of a GLM-4V (9B): a tower whose patches are merged four to one, and a ChatGLM."""
    return [*_tower(section(text), text), *chatglm(text)]


def _tower(config: Fields, text: Text) -> list[Part]:
    at, hidden, out = tower("transformer.vision"), config.integer("hidden_size"), text.hidden
    patch, width = config.integer("patch_size"), text.config.integer("ffn_hidden_size")
    layers = at.under("transformer.layers.{}").copies(config.integer("num_hidden_layers"))
    names = ("attention.query_key_value", "attention.query_key_value", "attention.query_key_value")
    projector = at.under("linear_proj")
    return [
        at.tensor("boi", 1, 1, out),
        at.tensor("eoi", 1, 1, out),
        at.tensor("patch_embedding.cls_embedding", 1, hidden),
        at.tensor("patch_embedding.proj.weight", hidden, config.integer("in_channels"), patch, patch),
        at.tensor("patch_embedding.proj.bias", hidden),
        at.tensor("patch_embedding.position_embedding.weight", config.integer("num_positions"), hidden),
        *encoder_layer(
            layers, hidden, config.integer("intermediate_size"), names=names, out="attention.dense",
            norms=("input_layernorm", "post_attention_layernorm"),
        ),
        projector.linear("linear_proj", out, out, Role.TOWER),
        *projector.norm("norm1", out, bias=True),
        projector.linear("gate_proj", width, out),
        projector.linear("dense_h_to_4h", width, out, leads=False),
        projector.linear("dense_4h_to_h", out, width, Role.ROW),
        at.tensor("conv.weight", out, hidden, 2, 2),
        at.tensor("conv.bias", out),
    ]  # fmt: skip
