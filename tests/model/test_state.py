"""Models with states of constant size: which layer has which mixer, its sizes, and the dtype it is kept in."""

import pytest
from model.reading import runs, shape_of

from kvplan.errors import InvalidConfig, UnknownArchitecture
from kvplan.model.spec import (
    Full,
    GatedDeltaNet,
    Indexer,
    KimiDelta,
    Lightning,
    LinearRecurrence,
    Mamba1,
    Mamba2,
    Rwkv,
    ShortConv,
    State,
    Window,
)

GQA = {"hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2}
FULL = (Full(2, 128, 128),)


def state(mixer, dtype=None):
    return (State(mixer, dtype),)


# -- pure state space -------------------------------------------------------------------------------------------------

MAMBA = {"num_hidden_layers": 3, "hidden_size": 1024, "state_size": 16, "conv_kernel": 4, "expand": 2}
MAMBA2 = {**MAMBA, "num_heads": 32, "head_dim": 64, "state_size": 128, "n_groups": 8}


@pytest.mark.parametrize(
    ("architecture", "config", "mixer"),
    [
        ("MambaForCausalLM", MAMBA, Mamba1(2048, 16, 4)),
        ("FalconMambaForCausalLM", {**MAMBA, "expand": 16, "intermediate_size": 3072}, Mamba1(3072, 16, 4)),
        ("Mamba2ForCausalLM", MAMBA2, Mamba2(2048, 8, 32, 64, 128, 4)),
    ],
)
def test_pure_state_models_have_no_heads(architecture, config, mixer):
    shape = shape_of(architecture, config)
    assert shape.layers == (state(mixer),) * 3
    assert (shape.heads, shape.kv_heads, shape.head_dim) == (0, 0, 0)


def test_rwkv():
    config = {"model_type": "rwkv5", "num_hidden_layers": 2, "hidden_size": 2560, "head_size": 64}
    shape = shape_of("RwkvForCausalLM", {**config, "attention_hidden_size": 1280})
    assert shape.layers == (state(Rwkv(2560, 20, 64), "float32"),) * 2
    with pytest.raises(UnknownArchitecture, match="RWKV-4"):
        shape_of("RwkvForCausalLM", {**config, "model_type": "rwkv"})


# -- hybrids by a pattern ---------------------------------------------------------------------------------------------

NEMOTRON = {
    **GQA, "model_type": "nemotron_h", "mamba_num_heads": 32, "mamba_head_dim": 64, "n_groups": 8,
    "ssm_state_size": 128, "conv_kernel": 4,
}  # fmt: skip
NEMOTRON_MIXER = Mamba2(2048, 8, 32, 64, 128, 4)


@pytest.mark.parametrize(
    "layers",
    [
        {"hybrid_override_pattern": "M-M*E"},
        {"hybrid_override_pattern": "M-M*E", "num_hidden_layers": 5},
        {"layers_block_type": ["mamba", "mlp", "mamba", "attention", "moe"]},
        {"layers_block_type": ["linear_attention", "mlp", "linear_attention", "full_attention", "moe"]},
        # a list goes before a pattern
        {"layers_block_type": ["mamba", "mlp", "mamba", "attention", "moe"], "hybrid_override_pattern": "MMMMM"},
    ],
)
def test_nemotron_h(layers):
    mamba = state(NEMOTRON_MIXER, "float32")
    assert shape_of("NemotronHForCausalLM", NEMOTRON | layers).layers == (mamba, (), mamba, FULL, ())


@pytest.mark.parametrize(
    ("architecture", "asked", "dtype"),
    [
        ("NemotronHForCausalLM", None, "float32"),
        ("NemotronHForCausalLM", "bfloat16", "bfloat16"),
        ("NemotronHForCausalLM", "auto", None),
        ("NemotronH_Nano_VL_V2", None, "float32"),
        # vLLM's rule knows the names above only: these wrappers keep the model's dtype
        ("NemotronH_Nano_Omni_Reasoning_V3", "float32", None),
        ("NemotronH_Super_Omni_Reasoning_V3", "float32", None),
    ],
)
def test_nemotron_h_state_dtype(architecture, asked, dtype):
    text = {**NEMOTRON, "hybrid_override_pattern": "M", **({"mamba_ssm_cache_dtype": asked} if asked else {})}
    config = text if architecture == "NemotronHForCausalLM" else {"llm_config": text}
    assert shape_of(architecture, config).layers == (state(NEMOTRON_MIXER, dtype),)


def test_nemotron_h_window_and_older_names():
    more = {"hybrid_override_pattern": "*M", "sliding_window": 512, "mamba_n_groups": 4, "mamba_d_conv": 8}
    shape = shape_of("NemotronHForCausalLM", NEMOTRON | more)
    assert shape.layers == ((Window(2, 128, 128, 512),), state(Mamba2(2048, 4, 32, 64, 128, 8), "float32"))


def test_nemotron_h_puzzle_layers_have_fields_of_their_own():
    blocks = [
        {"block_type": "mamba"},
        {"block_type": "attention", "num_key_value_heads": 4},
        {"block_type": "moe", "n_routed_experts": 64},
        {"block_type": "attention", "sliding_window": 64},
    ]
    shape = shape_of("NemotronHPuzzleForCausalLM", NEMOTRON | {"head_dim": 128, "block_configs": blocks})
    window = (Window(2, 128, 128, 64),)
    assert shape.layers == (state(NEMOTRON_MIXER, "float32"), (Full(4, 128, 128),), (), window)


@pytest.mark.parametrize(
    ("more", "drafts"),
    [
        ({}, ()),
        ({"num_nextn_predict_layers": 1}, (FULL,)),
        ({"num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E*E"}, (FULL * 2,)),
        ({"num_nextn_predict_layers": 1, "mtp_layers_block_type": ["attention", "moe"]}, (FULL,)),
    ],
)
def test_nemotron_h_drafts(more, drafts):
    config = {**NEMOTRON, "hybrid_override_pattern": "M*", **more}
    assert shape_of("NemotronHForCausalLM", config).draft_layers == drafts
    assert shape_of("NemotronH_Nano_VL_V2", {"llm_config": config}).draft_layers == ()


JAMBA = {**GQA, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}
BAMBA = {**GQA, "mamba_n_heads": 32, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 128, "mamba_d_conv": 4,
         "mamba_expand": 2}  # fmt: skip
BAMBA_MIXER = state(Mamba2(2048, 1, 32, 64, 128, 4))
ZAMBA = {**GQA, "mamba_d_state": 64, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_ngroups": 2, "n_mamba_heads": 32}
ZAMBA_MIXER = state(Mamba2(2048, 2, 32, 64, 64, 4))
ZAMBA_FULL = (Full(8, 256, 256),)
LFM = {**GQA, "conv_L_cache": 3}
CONV = state(ShortConv(1024, 3))
MINIMAX = {**GQA, "head_dim": 64}
LIGHTNING, NARROW = state(Lightning(8, 64)), (Full(2, 64, 64),)
PLAMO = {**GQA, "hidden_size_per_head": 64, "mamba_num_heads": 16, "mamba_d_state": 32, "mamba_d_conv": 4}
PLAMO_MIXER = state(Mamba2(1024, 0, 16, 64, 32, 4))
GRIFFIN = {**GQA, "lru_width": 1280, "conv1d_width": 4, "attention_window_size": 2048}
RECURRENT = state(LinearRecurrence(1280, 4), "float32")


@pytest.mark.parametrize(
    ("architecture", "config", "layers"),
    [
        ("JambaForCausalLM", {**JAMBA, "num_hidden_layers": 5, "attn_layer_period": 3, "attn_layer_offset": 1},
         [(1, state(Mamba1(2048, 16, 4))), (1, FULL), (2, state(Mamba1(2048, 16, 4))), (1, FULL)]),
        ("BambaForCausalLM", {**BAMBA, "num_hidden_layers": 4, "attn_layer_indices": [2]},
         [(2, BAMBA_MIXER), (1, FULL), (1, BAMBA_MIXER)]),
        ("GraniteMoeHybridForCausalLM", {**BAMBA, "num_hidden_layers": 3,
                                         "layer_types": ["mamba", "attention", "mamba"]},
         [(1, BAMBA_MIXER), (1, FULL), (1, BAMBA_MIXER)]),
        ("GraniteMoeHybridForCausalLM", {**BAMBA, "num_hidden_layers": 3}, [(3, BAMBA_MIXER)]),
        ("GraniteMoeHybridForCausalLM", {**GQA, "num_hidden_layers": 2, "layer_types": ["attention"] * 2}, [(2, FULL)]),
        ("FalconH1ForCausalLM", {**BAMBA, "num_hidden_layers": 2, "mamba_d_ssm": 1024, "mamba_d_head": 32},
         [(2, FULL + state(Mamba2(1024, 1, 32, 32, 128, 4)))]),
        ("FalconH1ForCausalLM", {**BAMBA, "num_hidden_layers": 2, "mamba_d_ssm": None, "mamba_d_head": "auto"},
         [(2, FULL + BAMBA_MIXER)]),
        ("Zamba2ForCausalLM", {**ZAMBA, "num_hidden_layers": 3, "layers_block_type": ["mamba", "hybrid", "mamba"]},
         [(1, ZAMBA_MIXER), (1, ZAMBA_FULL + ZAMBA_MIXER), (1, ZAMBA_MIXER)]),
        ("Lfm2ForCausalLM", {**LFM, "num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"]},
         [(1, CONV), (1, FULL), (1, CONV)]),
        ("Lfm2ForCausalLM", {**LFM, "num_hidden_layers": 3, "full_attn_idxs": [2]}, [(2, CONV), (1, FULL)]),
        ("Lfm2ForCausalLM", {**LFM, "num_hidden_layers": 3}, [(3, FULL)]),
        ("Lfm2MoeForCausalLM", {**LFM, "num_hidden_layers": 2, "layer_types": ["conv", "conv"], "conv_dim": 512},
         [(2, state(ShortConv(512, 3)))]),
        ("Lfm2VlForConditionalGeneration",
         {"text_config": {**LFM, "model_type": "lfm2", "num_hidden_layers": 2, "full_attn_idxs": [1]}},
         [(1, CONV), (1, FULL)]),
        ("Lfm2BidirectionalModel", {**LFM, "num_hidden_layers": 2, "full_attn_idxs": [1]}, [(2, ())]),
        ("MiniMaxText01ForCausalLM", {**MINIMAX, "num_hidden_layers": 4, "attn_type_list": [0, 0, 1, 0]},
         [(2, LIGHTNING), (1, NARROW), (1, LIGHTNING)]),
        ("MiniMaxM1ForCausalLM", {**MINIMAX, "num_hidden_layers": 2, "attn_type_list": [1, 0]},
         [(1, NARROW), (1, LIGHTNING)]),
        ("MiniMaxForCausalLM", {**MINIMAX, "model_type": "minimax", "num_hidden_layers": 2},
         [(1, NARROW), (1, LIGHTNING)]),
        ("Plamo2ForCausalLM", {**PLAMO, "num_hidden_layers": 4, "mamba_step": 2},
         [(1, PLAMO_MIXER), (1, NARROW), (1, PLAMO_MIXER), (1, NARROW)]),
        ("Plamo2ForCausalLM", {**PLAMO, "num_hidden_layers": 2, "mamba_step": 8}, [(1, PLAMO_MIXER), (1, NARROW)]),
        ("RecurrentGemmaForCausalLM", {**GRIFFIN, "num_hidden_layers": 4},
         [(2, RECURRENT), (1, (Window(2, 128, 128, 2048),)), (1, RECURRENT)]),
        ("RecurrentGemmaForCausalLM", {**GRIFFIN, "num_hidden_layers": 2, "_block_types": ["attention", "recurrent"]},
         [(1, (Window(2, 128, 128, 2048),)), (1, RECURRENT)]),
    ],
)  # fmt: skip
def test_hybrid_layers(architecture, config, layers):
    assert runs(shape_of(architecture, config).layers) == layers


def test_zamba2_default_pattern():
    shape = shape_of("Zamba2ForCausalLM", {**ZAMBA, "num_hidden_layers": 54})
    assert [i for i, layer in enumerate(shape.layers) if len(layer) == 2] == [6, 12, 18, 24, 30, 36, 42, 47, 51]


# -- delta nets -------------------------------------------------------------------------------------------------------

DELTA = {
    "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 64, "linear_value_head_dim": 96,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip
QWEN = {**GQA, **DELTA, "head_dim": 256, "num_hidden_layers": 4}
NET = GatedDeltaNet(4, 8, 64, 96, 4)
WIDE = (Full(2, 256, 256),)


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ({}, [(3, "linear"), (1, "full")]),
        ({"full_attention_interval": 2}, [(1, "linear"), (1, "full"), (1, "linear"), (1, "full")]),
        ({"layer_types": ["full_attention"] * 2 + ["linear_attention"] * 2}, [(2, "full"), (2, "linear")]),
    ],
)
@pytest.mark.parametrize("architecture", ["Qwen3NextForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"])
def test_qwen_interval(architecture, more, layers):
    kinds = {"linear": state(NET), "full": WIDE}
    expected = [(count, kinds[kind]) for count, kind in layers]
    assert runs(shape_of(architecture, QWEN | more).layers) == expected


@pytest.mark.parametrize(
    ("architecture", "dtype"),
    [
        ("Qwen3_5ForCausalLM", "float32"),
        ("Qwen3_5ForConditionalGeneration", "float32"),
        ("Qwen3_5MoeForConditionalGeneration", "float32"),
        ("Qwen3NextForCausalLM", None),  # its class has no such field
        ("InternS2PreviewForConditionalGeneration", None),  # these only embed Qwen3.5
        ("MiniCPMV4_6ForConditionalGeneration", None),
    ],
)
@pytest.mark.parametrize("nested", [True, False])
def test_qwen_state_dtype(architecture, dtype, nested):
    text = {**QWEN, "mamba_ssm_dtype": "float32"}
    shape = shape_of(architecture, {"text_config": text} if nested else text)
    assert shape.layers[0] == state(NET, dtype)


@pytest.mark.parametrize(
    ("architecture", "more", "count"),
    [
        ("Qwen3NextForCausalLM", {}, 1),
        ("Qwen3NextForCausalLM", {"num_nextn_predict_layers": 2}, 2),
        ("Qwen3_5ForCausalLM", {"mtp_num_hidden_layers": 1}, 1),
        ("Qwen3_5ForCausalLM", {"mtp_num_hidden_layers": 0}, 0),
        ("MiniCPMV4_6ForConditionalGeneration", {"mtp_num_hidden_layers": 1}, 0),
    ],
)
def test_qwen_drafts_are_full_attention(architecture, more, count):
    assert shape_of(architecture, QWEN | more).draft_layers == (WIDE,) * count


def test_olmo_hybrid_derives_what_is_missing():
    config = {"model_type": "olmo_hybrid", "num_hidden_layers": 5, "hidden_size": 3840, "num_attention_heads": 30}
    linear = state(GatedDeltaNet(30, 30, 96, 192, 4))
    layers = runs(shape_of("OlmoHybridForCausalLM", config).layers)
    assert layers == [(3, linear), (1, (Full(30, 128, 128),)), (1, linear)]
    few = shape_of("OlmoHybridForCausalLM", config | {"num_hidden_layers": 2}).layers
    assert few == (linear, (Full(30, 128, 128),))


def test_alice_ai():
    config = QWEN | {"linear_num_value_heads": 4, "linear_value_head_dim": 64}
    config["layer_types"] = ["linear_attention"] * 3 + ["full_attention"]
    shape = shape_of("AliceAIForCausalLM", config)
    assert runs(shape.layers) == [(3, state(KimiDelta(4, 64, 4, 64, 4), "float32")), (1, WIDE)]


# -- MiniMax-M3 -------------------------------------------------------------------------------------------------------

M3 = {**GQA, "num_hidden_layers": 3, "sparse_attention_config": {"sparse_attention_freq": [0, 1, 1],
                                                                 "sparse_index_dim": 64}}  # fmt: skip
SPARSE = (*FULL, Indexer(64, quantised=False))


@pytest.mark.parametrize("architecture", ["MiniMaxM3ForCausalLM", "MiniMaxM3SparseForCausalLM"])
def test_minimax_m3(architecture):
    shape = shape_of(architecture, M3 | {"num_mtp_modules": 2})
    assert (shape.layers, shape.draft_layers) == ((FULL, SPARSE, SPARSE), (SPARSE, SPARSE))
    dense = shape_of(architecture, M3 | {"sparse_attention_config": None, "num_mtp_modules": 0})
    assert (dense.layers, dense.draft_layers) == ((FULL,) * 3, ())
    text = {"text_config": {**M3, "model_type": "minimax_m3_vl_text"}}
    assert shape_of("MiniMaxM3SparseForConditionalGeneration", text).layers == shape.layers


# -- contradictions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("architecture", "config", "words"),
    [
        ("Mamba2ForCausalLM", {**MAMBA2, "num_heads": 31}, ["num_heads", "head_dim", "expand"]),
        ("MambaForCausalLM", {**MAMBA, "expand": float("nan")}, ["expand", "finite"]),
        ("MambaForCausalLM", {**MAMBA, "expand": 1e25}, ["expand"]),
        ("NemotronHForCausalLM", NEMOTRON, ["hybrid_override_pattern", "layers_block_type"]),
        ("NemotronHForCausalLM", {**NEMOTRON, "hybrid_override_pattern": "M*", "num_hidden_layers": 3},
         ["hybrid_override_pattern", "num_hidden_layers", "2 letters for 3 layers"]),
        ("NemotronHForCausalLM", {**NEMOTRON, "hybrid_override_pattern": "MX"}, ["hybrid_override_pattern", "MX"]),
        ("NemotronHForCausalLM", {**NEMOTRON, "layers_block_type": ["mamba"], "num_hidden_layers": 3},
         ["layers_block_type", "num_hidden_layers", "1 layer types for 3 layers"]),
        ("NemotronHForCausalLM", {**NEMOTRON, "hybrid_override_pattern": "M", "mamba_ssm_cache_dtype": "int8"},
         ["mamba_ssm_cache_dtype", "int8"]),
        ("NemotronHPuzzleForCausalLM", {**NEMOTRON, "block_configs": [{"block_type": "attn"}]},
         ["block_configs[0].block_type", "attn"]),
        ("JambaForCausalLM", {**JAMBA, "num_hidden_layers": 5, "attn_layer_period": 3, "attn_layer_offset": 3},
         ["attn_layer_offset", "attn_layer_period"]),
        ("BambaForCausalLM", {**BAMBA, "num_hidden_layers": 2, "attn_layer_indices": [2]},
         ["attn_layer_indices", "num_hidden_layers"]),
        ("Zamba2ForCausalLM", {**ZAMBA, "num_hidden_layers": 53}, ["layers_block_type", "num_hidden_layers"]),
        ("Zamba2ForCausalLM", {**ZAMBA, "num_hidden_layers": 54, "attention_head_dim": 100},
         ["num_attention_heads", "hidden_size"]),
        ("Zamba2ForCausalLM", {**ZAMBA, "num_hidden_layers": 54, "mamba_headdim": 32},
         ["mamba_headdim", "n_mamba_heads", "32 heads of 32 are not 2048"]),
        ("Lfm2MoeForCausalLM", {**LFM, "model_type": "lfm2_moe", "num_hidden_layers": 2}, ["layer_types"]),
        ("Lfm2ForCausalLM", {**LFM, "num_hidden_layers": 2, "full_attn_idxs": [2]}, ["full_attn_idxs"]),
        ("MiniMaxText01ForCausalLM", {**MINIMAX, "num_hidden_layers": 2}, ["attn_type_list"]),
        ("MiniMaxText01ForCausalLM", {**MINIMAX, "num_hidden_layers": 2, "attn_type_list": [0, 2]},
         ["attn_type_list", "2"]),
        ("MiniMaxM3ForCausalLM", {**GQA, "num_hidden_layers": 3}, ["sparse_attention_config"]),
        ("MiniMaxM3ForCausalLM", {**M3, "num_hidden_layers": 4}, ["sparse_attention_config.sparse_attention_freq"]),
        ("Qwen3NextForCausalLM", {**QWEN, "layer_types": ["linear_attention"]}, ["layer_types", "num_hidden_layers"]),
        ("Qwen3NextForCausalLM", {**QWEN, "linear_num_value_heads": 6}, ["linear_num_value_heads"]),
        ("Qwen3_5ForCausalLM", {**QWEN, "mamba_ssm_dtype": "fp4"}, ["mamba_ssm_dtype", "fp4"]),
        ("AliceAIForCausalLM", QWEN, ["linear_num_key_heads", "linear_value_head_dim"]),
        ("RwkvForCausalLM", {"model_type": "rwkv5", "num_hidden_layers": 2, "hidden_size": 100, "head_size": 64},
         ["attention_hidden_size", "head_size"]),
    ],
)  # fmt: skip
def test_contradictions_name_the_fields(architecture, config, words):
    with pytest.raises(InvalidConfig) as caught:
        shape_of(architecture, config)
    assert [word for word in words if word not in caught.value.message] == []
