"""DeepSeek-V2, V3, V3.2 and what reuses their classes: latent attention, some with a sparse indexer beside it."""

from __future__ import annotations

from dataclasses import replace

from kvplan.model.families import reads
from kvplan.model.families._attention import encoder_only, grouped_query
from kvplan.model.families._latent import (
    LatentAttention,
    draft_count,
    expanded_attention,
    indexed_layers,
    latent_attention,
)
from kvplan.model.fields import Fields
from kvplan.model.spec import Layer, Shape

# The model types whose latent vLLM caches as it is (transformers_utils/model_arch_config_convertor.py); any other one
# under these architectures is expanded to a key and a value a head.
_LATENT_TYPES = frozenset({"deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_mtp", "glm_moe_dsa", "kimi_k2"})
# The model types whose prediction layers vLLM can build (config/speculative.py), and how many the config class assumes:
# DeepseekV3Config, which reads the first two, says 1 under another name of the field (transformers 5.20.2).
_DRAFTS = {"deepseek_v3": 1, "deepseek_v32": 1, "glm_moe_dsa": 0}


@reads("DeepseekV2ForCausalLM", model_types=("deepseek_v2",))
@reads("DeepseekV3ForCausalLM", "DeepseekV3BidirectionalModel", model_types=("deepseek_v3", "kimi_k2"))
@reads("DeepseekV32ForCausalLM", model_types=("deepseek_v32",))
@reads("GlmMoeDsaForCausalLM", model_types=("glm_moe_dsa",))
def read(config: Fields) -> Shape:
    """Return the shape of a DeepSeek checkpoint, or of one that its classes serve."""
    count = config.layers()
    if not any(config.maybe_integer(name, low=0) for name in ("qk_nope_head_dim", "qk_rope_head_dim")):
        grouped = grouped_query(config, own_head_dim=False)  # DeepSeek-OCR's language model has no latent at all
        return grouped.shape([grouped.full()] * count)
    if not config.flag("is_causal", default=True):
        return encoder_only(expanded_attention(config), count)
    if config.maybe_integer("kv_lora_rank") is None or config.model_type not in _LATENT_TYPES:
        expanded = expanded_attention(config)
        return expanded.shape([expanded.full()] * count)
    attention = latent_attention(config)
    topk = config.maybe_integer("index_topk")
    layers = [attention.layer()] * count if topk is None else indexed_layers(config, attention)
    return attention.shape(layers, draft_layers=_drafts(config, attention, topk), index_topk=topk)


@reads("MistralLarge3ForCausalLM")
def read_mistral_large(config: Fields) -> Shape:
    """Return the shape of Mistral Large 3: DeepSeek-V3's, without prediction layers (it drafts by EAGLE)."""
    return replace(read(config), draft_layers=())


@reads("DeepSeekMTPModel", model_types=("deepseek_mtp",))
def read_draft(config: Fields) -> Shape:
    """Return the shape of prediction layers that are published as a checkpoint of their own."""
    attention = latent_attention(config)
    return attention.shape([attention.layer()] * draft_count(config, "num_nextn_predict_layers"))


def _drafts(config: Fields, attention: LatentAttention, topk: int | None) -> tuple[Layer, ...]:
    """Return the prediction layers; each has an indexer of its own, whatever the schedule of the others."""
    if config.model_type not in _DRAFTS:
        return ()
    layer = attention.layer() if topk is None else attention.indexed(config.integer("index_head_dim"))
    return (layer,) * draft_count(config, "num_nextn_predict_layers", default=_DRAFTS[config.model_type])
