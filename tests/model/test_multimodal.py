"""Multimodal wrappers and encoder-decoder models: the language model inside, and what cross attention adds."""

import pytest
from model.reading import runs, shape_of

from kvplan.errors import InvalidConfig, UnknownArchitecture
from kvplan.model.fields import Fields
from kvplan.model.read import read_model
from kvplan.model.spec import Cross, Full, Window
from kvplan.sources.checkpoint import Checkpoint

TEXT = {"num_hidden_layers": 4, "hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2}
GROUPED = [(4, (Full(2, 128, 128),))]


@pytest.mark.parametrize(
    ("architecture", "config", "layers"),
    [
        ("LlavaForConditionalGeneration", {"text_config": {**TEXT, "model_type": "llama"}}, GROUPED),
        (
            "LlavaForConditionalGeneration",
            {"text_config": {**TEXT, "architectures": ["MistralForCausalLM"], "sliding_window": 64}},
            [(4, (Window(2, 128, 128, 64),))],
        ),
        # the wrapper's class gives a type to a section that names none
        ("LlavaForConditionalGeneration", {"model_type": "llava", "text_config": TEXT}, GROUPED),
        ("InternVLChatModel", {"llm_config": {**TEXT, "model_type": "internlm2"}}, GROUPED),
        ("Qwen2VLForConditionalGeneration", {"model_type": "qwen2_vl", "vision_config": {}, **TEXT}, GROUPED),
        ("Qwen2_5_VLForConditionalGeneration", {"text_config": TEXT}, GROUPED),
        ("Qwen2_5OmniForConditionalGeneration", {"thinker_config": {"text_config": TEXT}}, GROUPED),
        ("Phi3VForCausalLM", TEXT, GROUPED),
        ("LlavaLlamaForCausalLM", TEXT, GROUPED),
        ("MossAudioModel", {"language_config": {**TEXT, "head_dim": 128}}, GROUPED),
        ("InfiMMZephyrModel", {"language": {**TEXT, "model_type": "mistral", "sliding_window": None}}, GROUPED),
        ("MiniCPMV", {**TEXT, "version": 2.6}, GROUPED),
        ("MiniCPMV", {**TEXT, "version": "4.5", "head_dim": 128}, GROUPED),
        ("MiniCPMO", TEXT, GROUPED),
        ("Step3p7ForConditionalGeneration", {**TEXT, "num_attention_groups": 2}, GROUPED),
        ("Moondream3ForCausalLM", {"config": {"text": {"n_layers": 4, "dim": 1024, "n_heads": 8, "n_kv_heads": 2}}},
         GROUPED),
        ("LlavaForSequenceClassification", {"text_config": {**TEXT, "model_type": "llama"}}, GROUPED),
    ],
)  # fmt: skip
def test_the_language_model_is_read_by_its_own_family(architecture, config, layers):
    assert runs(shape_of(architecture, config).layers) == layers


@pytest.mark.parametrize(
    ("architecture", "config", "expected"),
    [
        ("Gemma3ForConditionalGeneration", {"model_type": "gemma3"}, True),
        ("PaliGemmaForConditionalGeneration", {"model_type": "paligemma"}, True),
        ("LlavaForConditionalGeneration", {"model_type": "llava"}, False),
        ("LlavaForConditionalGeneration", {"model_type": "llava", "is_mm_prefix_lm": True}, True),
        ("Gemma3ForConditionalGeneration", {"model_type": "gemma3", "is_mm_prefix_lm": False}, False),
    ],
)
def test_image_tokens_that_see_each_other(architecture, config, expected):
    text = {**TEXT, "head_dim": 128, "sliding_window": 64, "model_type": "gemma3_text"}
    assert shape_of(architecture, {**config, "text_config": text}).prefix_lm is expected


@pytest.mark.parametrize(("value", "expected"), [("vision", True), ("all", False), (None, False)])
def test_gemma_4_says_so_in_its_text_section(value, expected):
    text = {**TEXT, "head_dim": 128, "sliding_window": 64, "use_bidirectional_attention": value}
    assert shape_of("Gemma4ForConditionalGeneration", {"text_config": text}).prefix_lm is expected


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [("moe_num_experts", [64, 64], 64), ("num_experts", 8, 8), ("n_routed_experts", None, 0)],
)
def test_experts_by_modality(field, value, expected):
    config = {"architectures": ["Ernie4_5_VLMoeForConditionalGeneration"], **TEXT, field: value}
    assert read_model(Checkpoint("test", "file", config)).num_experts == expected


def test_figures_come_from_the_text_section():
    config = {"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "hidden_size": 7,
              "text_config": {**TEXT, "model_type": "llama", "vocab_size": 99, "dtype": "bfloat16"}}  # fmt: skip
    model = read_model(Checkpoint("test", "file", config))
    assert (model.hidden_size, model.vocab_size, model.dtype) == (1024, 99, "bfloat16")


@pytest.mark.parametrize(
    ("config", "error", "named"),
    [
        ({}, InvalidConfig, "text_config"),
        ({"text_config": {}}, UnknownArchitecture, "text_config"),
        ({"text_config": {"model_type": "someones"}}, UnknownArchitecture, "someones"),
        ({"text_config": {"architectures": ["SomeonesForCausalLM"]}}, UnknownArchitecture, "SomeonesForCausalLM"),
        ({"text_config": {"architectures": ["InternVLChatModel"]}}, InvalidConfig, "architectures"),
        ({"text_config": "llama"}, InvalidConfig, "text_config"),
    ],
)
def test_what_no_reader_knows_is_declined(config, error, named):
    with pytest.raises(error, match=named):
        shape_of("InternVLChatModel", config)


BOTH = (Full(4, 64, 64), Cross(4, 64, 64))


@pytest.mark.parametrize(
    ("architecture", "config", "layers"),
    [
        ("WhisperForConditionalGeneration", {"d_model": 256, "decoder_layers": 3, "decoder_attention_heads": 4},
         [(3, BOTH)]),
        ("BartForConditionalGeneration", {"d_model": 256, "decoder_layers": 3, "decoder_attention_heads": 4},
         [(3, BOTH)]),
        ("T5ForConditionalGeneration", {"num_layers": 6, "num_decoder_layers": 3, "num_heads": 4, "d_kv": 64},
         [(3, BOTH)]),
        ("T5ForConditionalGeneration", {"num_layers": 3, "num_heads": 4, "d_kv": 64}, [(3, BOTH)]),
        ("NemotronParseForConditionalGeneration",
         {"decoder": {"d_model": 256, "decoder_layers": 3, "decoder_attention_heads": 4}}, [(3, BOTH)]),
        ("CohereAsrForConditionalGeneration",
         {"transf_decoder": {"config_dict": {"hidden_size": 256, "num_layers": 3, "num_attention_heads": 4}}},
         [(3, BOTH)]),
        ("MllamaForConditionalGeneration", {"text_config": {**TEXT, "cross_attention_layers": [2]}},
         [(2, (Full(2, 128, 128),)), (1, (Cross(2, 128, 128),)), (1, (Full(2, 128, 128),))]),
    ],
)  # fmt: skip
def test_encoder_decoder(architecture, config, layers):
    shape = shape_of(architecture, config)
    assert (shape.kind, runs(shape.layers)) == ("encoder-decoder", layers)


@pytest.mark.parametrize("architecture", ["BertModel", "ModernBertModel", "XLMRobertaForSequenceClassification"])
def test_encoders_keep_nothing(architecture):
    shape = shape_of(architecture, {"num_hidden_layers": 3, "hidden_size": 256, "num_attention_heads": 4})
    assert (shape.kind, shape.layers) == ("encoder", ((),) * 3)


@pytest.mark.parametrize(("value", "side"), [(448, 448), ([448, 448], 448), (None, None)])
def test_a_side_may_be_written_as_a_pair(value, side):
    assert Fields({"image_size": value}).maybe_side("image_size") == side


@pytest.mark.parametrize("value", [[], ["a"], "448", -1])
def test_a_side_that_is_none_is_refused(value):
    with pytest.raises(InvalidConfig):
        Fields({"image_size": value}).side("image_size")
