"""Grouped-query families: heads and dimensions from many spellings, and the window that all layers have or none."""

import pytest
from model.reading import runs, shape_of

from kvplan.errors import InvalidConfig
from kvplan.model.spec import Full, Window

PLAIN = {"num_hidden_layers": 4, "hidden_size": 1024, "num_attention_heads": 8}
GROUPED = {**PLAIN, "num_key_value_heads": 2}


@pytest.mark.parametrize(
    ("architecture", "config", "layers"),
    [
        ("LlamaForCausalLM", PLAIN, [(4, (Full(8, 128, 128),))]),
        ("LlamaForCausalLM", GROUPED, [(4, (Full(2, 128, 128),))]),
        ("LlamaForCausalLM", {**GROUPED, "head_dim": 96}, [(4, (Full(2, 96, 96),))]),
        ("LlamaForCausalLM", {**GROUPED, "head_dim": None}, [(4, (Full(2, 128, 128),))]),
        ("MistralForCausalLM", {**GROUPED, "sliding_window": 64}, [(4, (Window(2, 128, 128, 64),))]),
        ("MistralForCausalLM", {**GROUPED, "sliding_window": None}, [(4, (Full(2, 128, 128),))]),
        ("MistralForCausalLM", {**GROUPED, "sliding_window": 0}, [(4, (Full(2, 128, 128),))]),
        # the class of Mistral slides where a config does not say
        ("MistralForCausalLM", {**GROUPED, "model_type": "mistral"}, [(4, (Window(2, 128, 128, 4096),))]),
        # these classes divide the hidden size by the heads whatever head_dim says
        ("Qwen2ForCausalLM", {**GROUPED, "head_dim": 96}, [(4, (Full(2, 128, 128),))]),
        ("InternLM2ForCausalLM", {**GROUPED, "head_dim": 96}, [(4, (Full(2, 128, 128),))]),
        ("GraniteMoeForCausalLM", {**GROUPED, "head_dim": 96}, [(4, (Full(2, 128, 128),))]),
        ("Qwen3ForCausalLM", {**GROUPED, "head_dim": 96}, [(4, (Full(2, 96, 96),))]),
        ("Qwen3MoeForCausalLM", {**GROUPED, "head_dim": 96}, [(4, (Full(2, 96, 96),))]),
        ("GraniteForCausalLM", {**GROUPED, "head_dim": 96}, [(4, (Full(2, 96, 96),))]),
        ("Glm4ForCausalLM", {**GROUPED, "head_dim": 96}, [(4, (Full(2, 96, 96),))]),
        # one class name for a head on the same decoder
        ("LlamaForSequenceClassification", GROUPED, [(4, (Full(2, 128, 128),))]),
        ("Qwen2ForRewardModel", GROUPED, [(4, (Full(2, 128, 128),))]),
        ("Qwen3ForSequenceClassification", {**GROUPED, "head_dim": 96}, [(4, (Full(2, 96, 96),))]),
        ("MistralModel", {**GROUPED, "sliding_window": None}, [(4, (Full(2, 128, 128),))]),
        # names of their own
        ("ExaoneForCausalLM", {**GROUPED, "num_layers": 3, "num_hidden_layers": None}, [(3, (Full(2, 128, 128),))]),
        ("TeleChat2ForCausalLM", {"n_layer": 3, "n_head": 8, "hidden_size": 1024}, [(3, (Full(8, 128, 128),))]),
        ("HunYuanMoEV1ForCausalLM", {**GROUPED, "attention_head_dim": 96}, [(4, (Full(2, 96, 96),))]),
        ("Step1ForCausalLM", {**PLAIN, "num_attention_groups": 4}, [(4, (Full(4, 128, 128),))]),
        ("Step1ForCausalLM", PLAIN, [(4, (Full(1, 128, 128),))]),
        (
            "Step3TextForCausalLM",
            {**PLAIN, "num_attention_groups": 1, "head_dim": 256},
            [(4, (Full(1, 256, 256),))],
        ),
    ],
)
def test_heads(architecture, config, layers):
    assert runs(shape_of(architecture, config).layers) == layers


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ({"sliding_window": 64}, [(4, (Full(2, 128, 128),))]),
        ({"sliding_window": 64, "use_sliding_window": False}, [(4, (Full(2, 128, 128),))]),
        (
            {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 0},
            [(4, (Window(2, 128, 128, 64),))],
        ),
        (
            {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 3},
            [(3, (Full(2, 128, 128),)), (1, (Window(2, 128, 128, 64),))],
        ),
    ],
)
def test_qwen_slides_only_where_it_says_so(more, layers):
    assert runs(shape_of("Qwen2ForCausalLM", {**GROUPED, **more}).layers) == layers


@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_a_bidirectional_decoder_keeps_no_cache(architecture):
    shape = shape_of(architecture, {**GROUPED, "head_dim": 128, "is_causal": False})
    assert (shape.kind, shape.layers) == ("encoder", ((),) * 4)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({**PLAIN, "num_key_value_heads": 3}, "num_key_value_heads"),
        ({**PLAIN, "hidden_size": 4}, "hidden_size"),
        ({**PLAIN, "layer_types": ["full_attention"]}, "layer_types"),
        ({**PLAIN, "layer_types": ["full_attention", "odd", "odd", "odd"]}, "layer_types"),
        ({**PLAIN, "num_attention_heads": None}, "num_attention_heads"),
        ({**PLAIN, "num_hidden_layers": 0}, "num_hidden_layers"),
        ({**PLAIN, "num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({**PLAIN, "head_dim": -128}, "head_dim"),
    ],
)
def test_contradictions_name_their_fields(config, named):
    with pytest.raises(InvalidConfig, match=named):
        shape_of("LlamaForCausalLM", config)


def test_heads_by_layer():
    block = {"attention": {"n_heads_in_group": 4}}
    none, linear = {"attention": {"no_op": True}}, {"attention": {"replace_with_linear": True}}
    shape = shape_of("DeciLMForCausalLM", {**PLAIN, "block_configs": [block, none, linear, block]})
    assert shape.layers == ((Full(2, 128, 128),), (), (), (Full(2, 128, 128),))
    assert (shape.heads, shape.kv_heads) == (8, 2)
    with pytest.raises(InvalidConfig, match="block_configs"):
        shape_of("DeciLMForCausalLM", {**PLAIN, "block_configs": [block]})


def test_query_heads_by_layer_share_the_same_kv_heads():
    config = {**GROUPED, "num_attention_heads_per_layer": [8, 4, 8, 4]}
    assert runs(shape_of("LagunaForCausalLM", config).layers) == [(4, (Full(2, 128, 128),))]
    with pytest.raises(InvalidConfig, match="num_attention_heads_per_layer"):
        shape_of("LagunaForCausalLM", {**GROUPED, "num_attention_heads_per_layer": [8, 3, 8, 4]})


def test_openelm_widens_with_depth():
    config = {"num_transformer_layers": 2, "head_dim": 64, "num_query_heads": [12, 16], "num_kv_heads": [3, 4]}
    shape = shape_of("OpenELMForCausalLM", config)
    assert shape.layers == ((Full(3, 64, 64),), (Full(4, 64, 64),))
    assert (shape.heads, shape.kv_heads) == (16, 4)


@pytest.mark.parametrize(
    ("architecture", "config", "kv_heads"),
    [
        ("GPT2LMHeadModel", {"n_embd": 512, "n_head": 8, "n_layer": 2}, 8),
        ("BloomForCausalLM", {"n_embed": 512, "n_head": 8, "n_layer": 2}, 8),
        ("GPTBigCodeForCausalLM", {"n_embd": 512, "n_head": 8, "n_layer": 2}, 1),
        ("GPTBigCodeForCausalLM", {"n_embd": 512, "n_head": 8, "n_layer": 2, "multi_query": False}, 8),
        ("PhiForCausalLM", {"n_embd": 512, "n_head": 8, "n_layer": 2, "n_head_kv": None}, 8),
        ("MPTForCausalLM", {"d_model": 512, "n_heads": 8, "n_layers": 2}, 8),
        (
            "MPTForCausalLM",
            {"d_model": 512, "n_heads": 8, "n_layers": 2,
             "attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": 2}},
            2,
        ),
        ("DbrxForCausalLM", {"d_model": 512, "n_heads": 8, "n_layers": 2, "attn_config": {"kv_n_heads": 4}}, 4),
        ("FalconForCausalLM", {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2}, 1),
        (
            "FalconForCausalLM",
            {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2, "multi_query": False},
            8,
        ),
        (
            "FalconForCausalLM",
            {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2, "num_kv_heads": 2,
             "new_decoder_architecture": True},
            2,
        ),
        ("ChatGLMModel", {"hidden_size": 512, "num_attention_heads": 8, "num_layers": 2}, 8),
        (
            "ChatGLMModel",
            {"hidden_size": 512, "num_attention_heads": 8, "num_layers": 2, "multi_query_attention": True,
             "multi_query_group_num": 2},
            2,
        ),
    ],
)  # fmt: skip
def test_other_lineages(architecture, config, kv_heads):
    assert runs(shape_of(architecture, config).layers) == [(2, (Full(kv_heads, 64, 64),))]


def test_the_first_falcon_40b_does_not_name_its_decoder():
    config = {"model_type": "RefinedWeb", "n_layer": 2, "n_head": 128, "n_head_kv": 8, "hidden_size": 8192}
    assert runs(shape_of("RWForCausalLM", config).layers) == [(2, (Full(8, 64, 64),))]


@pytest.mark.parametrize(
    ("architecture", "model_type", "drafts"),
    [
        ("Glm4MoeForCausalLM", "glm4_moe", 1),
        ("Glm4MoeForCausalLM", "glm4v_moe_text", 0),
        ("Glm4ForCausalLM", "glm_ocr_text", 1),
        ("MiMoForCausalLM", "mimo", 1),
    ],
)
def test_prediction_layers(architecture, model_type, drafts):
    config = {**GROUPED, "model_type": model_type, "num_nextn_predict_layers": 1, "head_dim": 128}
    shape = shape_of(architecture, config)
    assert (len(shape.layers), shape.draft_layers) == (4, ((Full(2, 128, 128),),) * drafts)
