"""Kimi-VL and Kimi-K2.5: a MoonViT and a DeepSeek-V3."""

from __future__ import annotations

from dataclasses import replace

from kvplan.model.fields import Fields
from kvplan.model.weights.families import weighs
from kvplan.model.weights.latent import deepseek_layers, latent_table
from kvplan.model.weights.tensors import MODEL, Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import NESTED, encoder_layer, renamed, section, tower, unquantised


@weighs("KimiK25ForConditionalGeneration", "KimiVLForConditionalGeneration")
def kimi(text: Text) -> list[Part]:
    """Return the parts of a Kimi-K2.5 or Kimi-VL: a MoonViT tower and a DeepSeek-V3."""
    inner = replace(text, architecture="DeepseekV3ForCausalLM", nested=True)
    return [
        *unquantised(moonvit(section(text), text.hidden)),
        *renamed([*deepseek_layers(inner), *latent_table(inner, traced=False)], NESTED),
    ]


def moonvit(config: Fields, out: int) -> list[Part]:
    """Return Kimi's vision tower: learned positions by height and width, and by time in K2.5."""
    hidden = config.integer("vt_hidden_size", "hidden_size")
    width = config.integer("vt_intermediate_size", "intermediate_size")
    count, patch = config.integer("vt_num_hidden_layers", "num_hidden_layers"), config.integer("patch_size")
    merge = config.maybe_integers("merge_kernel_size", exactly=2) or [2, 2]
    merged = hidden * merge[0] * merge[1]
    at, projector = tower("vision_tower"), tower("mm_projector")
    layers = at.under("encoder.blocks.{}").copies(count)
    frames = config.maybe_integer("init_pos_emb_time")
    table = [at.table("patch_embed.pos_emb.time_weight", frames, 1, hidden, dtype=MODEL)] if frames else []
    return [
        at.tensor("patch_embed.proj.weight", hidden, 3, patch, patch),
        at.tensor("patch_embed.proj.bias", hidden),
        at.tensor(
            "patch_embed.pos_emb.weight",
            config.integer("init_pos_emb_height"), config.integer("init_pos_emb_width"), hidden,
        ),
        *table,
        *encoder_layer(
            layers, hidden, width, names=("wqkv", "wqkv", "wqkv"), out="wo", forward=("mlp.fc0", "mlp.fc1"),
            norms=("norm0", "norm1"),
        ),
        *at.norm("encoder.final_layernorm", hidden, bias=True),
        *projector.norm("pre_norm", hidden, bias=True),
        projector.linear("linear_1", merged, merged, Role.TOWER, bias=True),
        projector.linear("linear_2", out, merged, Role.TOWER, bias=True),
    ]  # fmt: skip
