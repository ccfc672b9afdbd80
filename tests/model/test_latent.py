"""Models with latent attention: what each layer keeps, which layers share an index, and the prediction layers."""

import pytest
from model.reading import runs, shape_of

from kvplan.errors import InvalidConfig
from kvplan.model.spec import CompressedLatent, Full, Indexer, KimiDelta, Latent, Lightning, State

MLA = {
    "num_hidden_layers": 6, "hidden_size": 1024, "num_attention_heads": 8, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128,
}  # fmt: skip
SPARSE = {**MLA, "index_topk": 2048, "index_head_dim": 128}
KDA = {"head_dim": 96, "num_heads": 8, "short_conv_kernel_size": 4}
LATENT = (Latent(512, 64),)
DENSE = (Latent(512, 64, dense=True),)
INDEXED = (Latent(512, 64), Indexer(128, quantised=True))
EXPANDED = (Full(8, 192, 192),)
DELTA = (State(KimiDelta(8, 96, 8, 96, 4), "float32"),)


@pytest.mark.parametrize(
    ("architecture", "config", "layers"),
    [
        ("DeepseekV2ForCausalLM", {**MLA, "model_type": "deepseek_v2"}, [(6, LATENT)]),
        ("DeepseekV3ForCausalLM", {**MLA, "model_type": "deepseek_v3"}, [(6, LATENT)]),
        ("DeepseekV3ForCausalLM", {**MLA, "model_type": "kimi_k2"}, [(6, LATENT)]),
        # vLLM caches the latent for the model types that it knows, and expands it for any other
        ("DeepseekV3ForCausalLM", {**MLA, "model_type": "someones_v3"}, [(6, EXPANDED)]),
        ("DeepseekV2ForCausalLM", {**MLA, "model_type": "deepseek_v2", "kv_lora_rank": None}, [(6, EXPANDED)]),
        ("DeepseekV3BidirectionalModel", {**MLA, "model_type": "deepseek_v3", "is_causal": False}, [(6, ())]),
        (
            "DeepseekV2ForCausalLM",  # DeepSeek-OCR's language model: no latent dimensions, plain heads
            {"num_hidden_layers": 2, "hidden_size": 1280, "num_attention_heads": 10, "num_key_value_heads": 10,
             "kv_lora_rank": None, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0},
            [(2, (Full(10, 128, 128),))],
        ),
        ("MistralLarge3ForCausalLM", {**MLA, "model_type": "deepseek_v3"}, [(6, LATENT)]),
        ("DeepSeekMTPModel", {**MLA, "model_type": "deepseek_mtp", "num_nextn_predict_layers": 3}, [(3, LATENT)]),
        ("AXK1ForCausalLM", MLA, [(6, LATENT)]),
        ("SarvamMLAForCausalLM", MLA, [(6, LATENT)]),
        ("YoutuForCausalLM", MLA, [(6, LATENT)]),
        ("Mistral4ForCausalLM", {**MLA, "kv_lora_rank": 256}, [(6, (Latent(256, 64),))]),
        ("Glm4MoeLiteForCausalLM", MLA, [(6, LATENT)]),
        ("PanguUltraMoEForCausalLM", MLA, [(6, LATENT)]),
        ("MiniCPM3ForCausalLM", {**MLA, "num_attention_heads": 40, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32},
         [(6, (Full(40, 96, 96),))]),
        ("KimiVLForConditionalGeneration", {"text_config": {**MLA, "model_type": "deepseek_v3"}}, [(6, LATENT)]),
        ("KimiK25ForConditionalGeneration", {"text_config": {**MLA, "model_type": "kimi_k2"}}, [(6, LATENT)]),
        ("LongcatFlashForCausalLM", {**MLA, "num_layers": 5}, [(5, LATENT * 2)]),
        ("LongcatFlashForCausalLM", MLA, [(3, LATENT * 2)]),
    ],
)  # fmt: skip
def test_latent_layers(architecture, config, layers):
    assert runs(shape_of(architecture, config).layers) == layers


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ({}, [(6, INDEXED)]),
        ({"index_topk_freq": 4}, [(2, INDEXED), (3, LATENT), (1, INDEXED)]),
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, [(3, INDEXED), (3, LATENT)]),
        ({"index_topk_pattern": "FSSFSF"}, [(1, INDEXED), (2, LATENT), (1, INDEXED), (1, LATENT), (1, INDEXED)]),
        ({"index_topk_pattern": ["F", "S"]}, [(1, INDEXED), (1, LATENT), (4, INDEXED)]),
        # the pattern goes before the frequency
        ({"index_topk_pattern": "FFFFFF", "index_topk_freq": 4}, [(6, INDEXED)]),
    ],
)
@pytest.mark.parametrize("architecture", ["DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"])
def test_index_schedule(architecture, more, layers):
    shape = shape_of(architecture, {**SPARSE, "model_type": "glm_moe_dsa", **more})
    assert runs(shape.layers) == layers
    assert shape.index_topk == 2048


def test_glm_5_2_shares_indexers():
    more = {"num_hidden_layers": 78, "index_topk_freq": 4, "index_skip_topk_offset": 3}
    shape = shape_of("GlmMoeDsaForCausalLM", {**SPARSE, "model_type": "glm_moe_dsa", **more})
    assert sum(layer == INDEXED for layer in shape.layers) == 21


SPARSE_TYPES = ["indexed_attention"] * 6


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ({}, [(6, LATENT)]),  # without layer types vLLM makes no layer sparse
        ({"layer_types": SPARSE_TYPES}, [(2, INDEXED), (3, LATENT), (1, INDEXED)]),
        ({"layer_types": SPARSE_TYPES, "indexer_types": ["full"] * 6}, [(6, INDEXED)]),
        ({"layer_types": ["full_attention"] * 5 + ["sparse"]}, [(5, DENSE), (1, INDEXED)]),
    ],
)
def test_hunyuan_v4(more, layers):
    assert runs(shape_of("HYV4ForCausalLM", {**SPARSE, "model_type": "hy_v4", **more}).layers) == layers


@pytest.mark.parametrize(
    ("architecture", "config", "drafts"),
    [
        ("DeepseekV3ForCausalLM", {**MLA, "model_type": "deepseek_v3", "num_nextn_predict_layers": 2}, (LATENT,) * 2),
        ("DeepseekV3ForCausalLM", {**MLA, "model_type": "deepseek_v3"}, (LATENT,)),  # the class says 1
        ("DeepseekV3ForCausalLM", {**MLA, "model_type": "deepseek_v3", "num_nextn_predict_layers": 0}, ()),
        ("DeepseekV3ForCausalLM", {**MLA, "model_type": "kimi_k2", "num_nextn_predict_layers": 1}, ()),
        ("MistralLarge3ForCausalLM", {**MLA, "model_type": "deepseek_v3"}, ()),
        ("GlmMoeDsaForCausalLM", {**SPARSE, "model_type": "glm_moe_dsa"}, ()),
        # a prediction layer has an index of its own, where the others share one
        ("GlmMoeDsaForCausalLM", {**SPARSE, "model_type": "glm_moe_dsa", "num_nextn_predict_layers": 1,
                                  "index_topk_pattern": "FSSSSS"}, (INDEXED,)),
        ("Glm4MoeLiteForCausalLM", {**MLA, "num_nextn_predict_layers": 1}, (LATENT,)),
        ("LongcatFlashForCausalLM", {**MLA, "num_nextn_predict_layers": 3}, (LATENT,)),
        ("KimiK25ForConditionalGeneration", {"text_config": {**MLA, "model_type": "deepseek_v3"}}, ()),
        ("HYV4ForCausalLM", {**SPARSE, "layer_types": SPARSE_TYPES, "num_nextn_predict_layers": 1}, (INDEXED,)),
    ],
)  # fmt: skip
def test_draft_layers(architecture, config, drafts):
    assert shape_of(architecture, config).draft_layers == drafts


def test_model_wide_figures():
    shape = shape_of("DeepseekV3ForCausalLM", {**MLA, "model_type": "deepseek_v3", "num_key_value_heads": 4})
    assert (shape.heads, shape.kv_heads, shape.head_dim, shape.mla_dims) == (8, 4, 576, (128, 64, 128))


# -- hybrids ----------------------------------------------------------------------------------------------------------

KIMI = {**MLA, "model_type": "kimi_linear"}
BAILING = {**MLA, "head_dim": 96, "layer_group_size": 4, "short_conv_kernel_size": 4, "num_nextn_predict_layers": 1}


@pytest.mark.parametrize(
    ("section", "layers"),
    [
        (None, [(6, LATENT)]),
        ({**KDA, "kda_layers": [1, 2, 3, 5], "full_attn_layers": [4, 6]},
         [(3, DELTA), (1, LATENT), (1, DELTA), (1, LATENT)]),
        ({**KDA, "kda_layers": [], "full_attn_layers": [1, 2, 3, 4, 5, 6]}, [(6, LATENT)]),
    ],
)  # fmt: skip
def test_kimi_linear(section, layers):
    config = KIMI | {"linear_attn_config": section}
    assert runs(shape_of("KimiLinearForCausalLM", config).layers) == layers
    wrapped = shape_of("KimiK3ForConditionalGeneration", {"text_config": config | {"num_nextn_predict_layers": 1}})
    assert runs(wrapped.layers) == layers
    assert wrapped.draft_layers == (LATENT,)


@pytest.mark.parametrize(
    ("architecture", "layers"),
    [
        ("BailingMoeV2_5ForCausalLM", [(3, "linear"), (1, LATENT), (2, "linear")]),
        ("BailingMoeV3ForCausalLM", [(3, "linear"), (3, LATENT)]),  # the short last group keeps latents alone
    ],
)
def test_bailing_groups(architecture, layers):
    linear = (State(Lightning(8, 96)),) if "V2_5" in architecture else DELTA
    shape = shape_of(architecture, BAILING)
    assert runs(shape.layers) == [(n, linear if layer == "linear" else layer) for n, layer in layers]
    assert shape.draft_layers == (LATENT,)


# -- DeepSeek-V4 ------------------------------------------------------------------------------------------------------

V4 = {
    "num_hidden_layers": 4, "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512,
    "qk_rope_head_dim": 64, "sliding_window": 128, "index_head_dim": 128, "index_topk": 512,
    "num_nextn_predict_layers": 1,
}  # fmt: skip
WINDOW = (CompressedLatent(512, 64, 128, 0, None),)
CSA = (CompressedLatent(512, 64, 128, 4, 128),)
HCA = (CompressedLatent(512, 64, 128, 128, None),)
CSA_TYPE, HCA_TYPE = "compressed_sparse_attention", "heavily_compressed_attention"


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ({"compress_ratios": [0, 4, 128, 4, 0]}, (WINDOW, CSA, HCA, CSA)),  # the fifth is the prediction layer's
        ({"layer_types": ["sliding_attention", CSA_TYPE, HCA_TYPE, CSA_TYPE]}, (WINDOW, CSA, HCA, CSA)),
        ({"layer_types": [CSA_TYPE] * 4, "compress_ratios": [0] * 5}, (CSA,) * 4),
        ({}, (HCA, HCA, HCA, CSA)),
        ({"compress_rate_hca": 64}, (((CompressedLatent(512, 64, 128, 64, None),),) * 3 + (CSA,))),
        ({"compress_rates": {CSA_TYPE: 4}}, (WINDOW, WINDOW, WINDOW, CSA)),
    ],
)
@pytest.mark.parametrize("model_type", ["deepseek_v4", "deepseek_ref"])
def test_deepseek_v4(model_type, more, layers):
    shape = shape_of("DeepseekV4ForCausalLM", {**V4, "model_type": model_type, **more})
    assert shape.layers == layers
    assert shape.draft_layers == (WINDOW,)


def test_deepseek_v4_rope_is_an_eighth_of_a_head_by_default():
    config = {name: value for name, value in V4.items() if name != "qk_rope_head_dim"}
    assert shape_of("DeepseekV4ForCausalLM", config).layers[0][0].rope_dim == 64


# -- contradictions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("architecture", "config", "words"),
    [
        ("DeepseekV3ForCausalLM", {**MLA, "model_type": "x", "qk_nope_head_dim": None, "qk_rope_head_dim": 64},
         ["qk_nope_head_dim"]),
        ("GlmMoeDsaForCausalLM", {**SPARSE, "model_type": "glm_moe_dsa", "indexer_types": ["full"]},
         ["indexer_types", "num_hidden_layers", "1 types for 6 layers"]),
        ("GlmMoeDsaForCausalLM", {**SPARSE, "model_type": "glm_moe_dsa", "indexer_types": ["half"] * 6}, ["half"]),
        ("GlmMoeDsaForCausalLM", {**SPARSE, "model_type": "glm_moe_dsa", "index_topk_freq": 0}, ["index_topk_freq"]),
        ("DeepseekV4ForCausalLM", {**V4, "compress_ratios": [0, 4]}, ["compress_ratios", "2 entries for 4 layers"]),
        ("DeepseekV4ForCausalLM", {**V4, "compress_ratios": [0, 4, 8, 0]}, ["compress_ratios", "8"]),
        ("DeepseekV4ForCausalLM", {**V4, "layer_types": ["full_attention"] * 4}, ["layer_types", "full_attention"]),
        ("DeepseekV4ForCausalLM", {**V4, "qk_rope_head_dim": 1024}, ["qk_rope_head_dim", "head_dim"]),
        ("KimiLinearForCausalLM", {**KIMI, "linear_attn_config": {**KDA, "kda_layers": [1], "full_attn_layers": [1]}},
         ["linear_attn_config.kda_layers", "full_attn_layers"]),
        ("KimiLinearForCausalLM", {**KIMI, "linear_attn_config": {**KDA, "kda_layers": [7], "full_attn_layers": [1]}},
         ["kda_layers", "6 layers"]),
        ("LongcatFlashForCausalLM", {**MLA, "num_hidden_layers": 7}, ["num_hidden_layers", "even"]),
        ("HYV4ForCausalLM", {**SPARSE, "layer_types": ["sparse"]}, ["layer_types", "num_hidden_layers"]),
    ],
)  # fmt: skip
def test_contradictions_name_the_fields(architecture, config, words):
    with pytest.raises(InvalidConfig) as caught:
        shape_of(architecture, config)
    assert [word for word in words if word not in caught.value.message] == []
