"""Plain grouped-query models, dense and with experts: every layer alike, with a window in all of them or in none."""

from __future__ import annotations

from dataclasses import replace

from kvplan.model.families import reads
from kvplan.model.families._attention import GroupedQuery, grouped_query, model_wide, sliding_types, sliding_window
from kvplan.model.families._latent import draft_count
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape

# The model types whose prediction layers vLLM can build (config/speculative.py): each is one more layer of the kind.
_DRAFTING_TYPES = frozenset({"ernie4_5_moe", "glm4_moe", "glm_ocr_text", "hy_v3"})


@reads("MixtralForCausalLM", model_types=("mixtral",))
@reads("PhiMoEForCausalLM", "PhimoeForCausalLM", model_types=("phimoe",))
@reads("NemotronForCausalLM", model_types=("nemotron",))
@reads("SolarForCausalLM", model_types=("solar",))
@reads("GemmaForCausalLM", model_types=("gemma",))
@reads("Glm4ForCausalLM", model_types=("glm4", "glm4v_text", "glm_ocr_text"))
@reads("Glm4MoeForCausalLM", model_types=("glm4_moe", "glm4v_moe_text"))
@reads("HYV3ForCausalLM", model_types=("hy_v3",))
@reads("HyperCLOVAXForCausalLM", model_types=("hyperclovax",))
@reads("Ernie4_5_MoeForCausalLM", model_types=("ernie4_5_moe", "ernie4_5_vl_moe_text"))
@reads("MiniMaxM2ForCausalLM", model_types=("minimax_m2",))
@reads("BailingMoeForCausalLM", model_types=("bailing_moe",))
@reads("BailingMoeV2ForCausalLM", model_types=("bailing_moe_v2",))
@reads("SarvamMoEForCausalLM", model_types=("sarvam_moe",))
@reads("Param2MoEForCausalLM", model_types=("param2moe",))
@reads("K2HorizonForCausalLM", model_types=("k2_horizon",))
@reads("CohereForCausalLM", model_types=("cohere",))
def read(config: Fields) -> Shape:
    """Return the shape of a model whose layers are all alike; a missing head_dim is hidden / heads."""
    shape = alike(config, grouped_query(config))
    if config.model_type not in _DRAFTING_TYPES:
        return shape
    return replace(shape, draft_layers=shape.layers[:1] * draft_count(config, "num_nextn_predict_layers"))


@reads("InternLM2ForCausalLM", "InternLM2ForRewardModel", "InternLM2VEForCausalLM", model_types=("internlm2",))
@reads("MiniCPMForCausalLM", model_types=("minicpm",))
@reads("OrionForCausalLM", model_types=("orion",))
@reads("OlmoeForCausalLM", model_types=("olmoe",))
@reads("StableLmForCausalLM", "StableLMEpochForCausalLM", model_types=("stablelm", "stablelm_epoch"))
@reads("DeepseekForCausalLM", model_types=("deepseek",))
@reads("Phi3SmallForCausalLM", model_types=("phi3small",))
@reads("ArcticForCausalLM", model_types=("arctic",))
def read_divided(config: Fields) -> Shape:
    """Return the shape of a model whose class divides the hidden size by the heads whatever head_dim says."""
    return alike(config, grouped_query(config, own_head_dim=False))


@reads("BaichuanForCausalLM", "BaiChuanForCausalLM", model_types=("baichuan",))
@reads("QWenLMHeadModel", model_types=("qwen",))
@reads("PersimmonForCausalLM", model_types=("persimmon",))
def read_multi_head(config: Fields) -> Shape:
    """Return the shape of a multi-head model."""
    heads = config.integer("num_attention_heads")
    if config.has("num_key_value_heads") and config.integer("num_key_value_heads") != heads:
        raise config.contradicts("num_attention_heads", "num_key_value_heads", why="this architecture is multi-head")
    return alike(config, grouped_query(config, own_head_dim=False))


def alike(config: Fields, heads: GroupedQuery) -> Shape:
    """Return the shape of so many equal layers, with the model-wide window where the config has one."""
    count = config.layers()
    return heads.shape(model_wide(heads, count, sliding_types(config, count), sliding_window(config)))
