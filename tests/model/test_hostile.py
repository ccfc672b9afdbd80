"""A config is data from a stranger: whatever a field holds, a reader answers or says no and names the field."""

import pytest
from model.reading import shape_of
from model.test_latent import BAILING, KIMI, SPARSE, V4
from model.test_state import BAMBA, JAMBA, LFM, M3, MAMBA2, MINIMAX, NEMOTRON, PLAMO, QWEN, ZAMBA

from kvplan.errors import InvalidConfig, KvplanError

CONFIGS = {
    "GlmMoeDsaForCausalLM": {**SPARSE, "model_type": "glm_moe_dsa", "index_topk_pattern": "FS", "indexer_types": None},
    "DeepseekV4ForCausalLM": {**V4, "compress_ratios": [0, 4, 128, 0], "layer_types": None, "compress_rates": None},
    "KimiLinearForCausalLM": KIMI | {"linear_attn_config": {"kda_layers": [1], "full_attn_layers": [2]}},
    "BailingMoeV3ForCausalLM": BAILING,
    "LongcatFlashForCausalLM": {**SPARSE, "num_layers": 2},
    "Qwen3_5MoeForCausalLM": {**QWEN, "full_attention_interval": 4, "layer_types": None, "mamba_ssm_dtype": None},
    "Mamba2ForCausalLM": MAMBA2,
    "NemotronHForCausalLM": {**NEMOTRON, "hybrid_override_pattern": "M*", "layers_block_type": None,
                             "mtp_layers_block_type": None, "num_nextn_predict_layers": 1},
    "NemotronHPuzzleForCausalLM": {**NEMOTRON, "head_dim": 128, "block_configs": [{"block_type": "attention"}]},
    "JambaForCausalLM": {**JAMBA, "num_hidden_layers": 2, "attn_layer_period": 2, "attn_layer_offset": 1},
    "GraniteMoeHybridForCausalLM": {**BAMBA, "num_hidden_layers": 2, "layer_types": ["mamba"] * 2},
    "Zamba2ForCausalLM": {**ZAMBA, "num_hidden_layers": 1, "layers_block_type": ["hybrid"]},
    "Lfm2ForCausalLM": {**LFM, "num_hidden_layers": 2, "full_attn_idxs": [0], "layer_types": None},
    "MiniMaxText01ForCausalLM": {**MINIMAX, "num_hidden_layers": 2, "attn_type_list": [0, 1]},
    "Plamo2ForCausalLM": {**PLAMO, "num_hidden_layers": 2, "mamba_step": 2},
    "MiniMaxM3ForCausalLM": M3,
}  # fmt: skip
HOSTILE = [None, -1, 0, 2**70, 1.5, float("nan"), float("inf"), True, "", "auto", "M" * 4096, [], [None], ["x"],
           [2**80], {}, {"": None}]  # fmt: skip


@pytest.mark.parametrize("architecture", CONFIGS)
def test_hostile_values_are_refused_or_read(architecture):
    config = CONFIGS[architecture]
    for name in config:
        for value in HOSTILE:
            try:
                shape = shape_of(architecture, config | {name: value})
            except KvplanError as error:
                assert error.message  # noqa: PT017  # most values are refused, which ones is the next test's question
            else:
                assert 0 < len(shape.layers) <= 2048


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("GlmMoeDsaForCausalLM", "kv_lora_rank"),
        ("DeepseekV4ForCausalLM", "sliding_window"),
        ("BailingMoeV3ForCausalLM", "layer_group_size"),
        ("Qwen3_5MoeForCausalLM", "linear_num_key_heads"),
        ("Mamba2ForCausalLM", "state_size"),
        ("NemotronHForCausalLM", "mamba_num_heads"),
        ("JambaForCausalLM", "attn_layer_period"),
        ("Lfm2ForCausalLM", "conv_L_cache"),
        ("Plamo2ForCausalLM", "hidden_size_per_head"),
    ],
)
@pytest.mark.parametrize("value", [-1, 2**70, float("nan"), "64", [64]])
def test_a_size_that_is_none_is_named(architecture, name, value):
    with pytest.raises(InvalidConfig, match=name):
        shape_of(architecture, CONFIGS[architecture] | {name: value})


@pytest.mark.parametrize("architecture", CONFIGS)
def test_an_empty_config_is_refused(architecture):
    with pytest.raises(InvalidConfig, match=r"lacks|must be"):
        shape_of(architecture, {})
