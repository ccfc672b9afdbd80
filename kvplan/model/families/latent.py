"""Models of one latent attention a layer under a class of their own, and MiniCPM3, whose latent vLLM expands."""

from __future__ import annotations

from dataclasses import replace

from kvplan.model.families import reads
from kvplan.model.families._latent import draft_count, expanded_attention, latent_attention
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


@reads("AXK1ForCausalLM", model_types=("axk1",))
@reads("SarvamMLAForCausalLM", model_types=("sarvam_mla",))
@reads("Mistral4ForCausalLM", model_types=("mistral4",))
@reads("YoutuForCausalLM", model_types=("youtu",))
@reads("Eagle3DeepseekV2ForCausalLM", "Eagle3DeepseekV3ForCausalLM")  # EAGLE-3 drafts for DeepSeek and Kimi-K2
def read(config: Fields) -> Shape:
    """Return the shape of a model whose layers all keep a latent and that carries no prediction layers."""
    attention = latent_attention(config)
    return attention.shape([attention.layer()] * config.layers())


@reads("Glm4MoeLiteForCausalLM", model_types=("glm4_moe_lite",))
@reads("PanguUltraMoEForCausalLM", model_types=("pangu_ultra_moe",))
def read_with_drafts(config: Fields) -> Shape:
    """Return the shape of a model whose prediction layers are as its others."""
    attention = latent_attention(config)
    drafts = (attention.layer(),) * draft_count(config, "num_nextn_predict_layers")
    return replace(read(config), draft_layers=drafts)


@reads("MiniCPM3ForCausalLM", model_types=("minicpm3",))
def read_minicpm3(config: Fields) -> Shape:
    """Return the shape of MiniCPM3: the weights are latent, the cache holds a key and a value for each query head."""
    attention = expanded_attention(config)
    return attention.shape([attention.full()] * config.layers())
