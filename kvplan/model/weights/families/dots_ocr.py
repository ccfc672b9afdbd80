"""dots.ocr: a gated tower with rotary positions beside a Qwen2."""

from __future__ import annotations

from kvplan.model.weights.families import weighs
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import encoder_layer, language_model, section, tower


@weighs("DotsOCRForCausalLM")
def dots_ocr(text: Text) -> list[Part]:
    """Return the parts of a dots.ocr."""
    config, at = section(text), tower("vision_tower")
    hidden, out = config.integer("embed_dim"), config.integer("hidden_size")
    width = config.integer("intermediate_size")
    bias, patch = config.flag("use_bias"), config.integer("patch_size")
    blocks = at.under("blocks.{}").copies(config.integer("num_hidden_layers"))
    first = at.under("patch_embed.patchifier")
    merged = hidden * config.integer("spatial_merge_size") ** 2
    head_dim = hidden // config.integer("num_attention_heads")
    return [
        first.tensor("proj.weight", hidden, config.integer("num_channels"), patch, patch),
        first.tensor("proj.bias", hidden),
        *first.norm("norm", hidden),
        *encoder_layer(
            blocks, hidden, width, bias=bias, names=("attn.qkv", "attn.qkv", "attn.qkv"), out="attn.proj",
            forward=("mlp.fc1", "mlp.fc3", "mlp.fc2"), norms=("norm1", "norm2"), norm_bias=False,
        ),
        *(at.norm("post_trunk_norm", hidden) if config.flag("post_norm", default=True) else []),
        *at.norm("merger.ln_q", hidden, bias=True),
        at.linear("merger.mlp.0", merged, merged, bias=True),
        at.linear("merger.mlp.2", out, merged, Role.ROW, bias=True),
        at.table("rotary_pos_emb.inv_freq", head_dim // 4),
        *language_model(text, "Qwen2ForCausalLM"),
    ]  # fmt: skip
