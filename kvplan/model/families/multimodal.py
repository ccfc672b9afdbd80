"""Multimodal wrappers whose language model is read by its own family (see _multimodal.py).

Two tables: the wrappers that build whatever the nested section names, and those that fix the inner architecture
(vLLM 0.33.0, the argument of init_vllm_registered_model in each wrapper's class).
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.model.families import reads
from kvplan.model.families._attention import encoder
from kvplan.model.families._multimodal import language_model, wraps
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape

# Wrapper: its model types.
_OPEN: dict[str, tuple[str, ...]] = {
    "AyaVisionForConditionalGeneration": ("aya_vision",),
    "BailingMMNativeForConditionalGeneration": ("bailingmm",),
    "BeeForConditionalGeneration": ("bee",),
    "Blip2ForConditionalGeneration": ("blip-2",),
    "Cohere2VisionForConditionalGeneration": ("cohere2_vision",),
    "Eagle2_5_VLForConditionalGeneration": ("eagle_2_5_vl",),
    "FastVlmForConditionalGeneration": ("fast_vlm",),
    "GotOcr2ForConditionalGeneration": ("got_ocr2",),
    "GraniteSpeechForConditionalGeneration": ("granite_speech",),
    "GraniteSpeechPlusForConditionalGeneration": ("granite_speech_plus",),
    "H2OVLChatModel": ("h2ovl_chat",),
    "HCXVisionForCausalLM": (),
    "HCXVisionV2ForCausalLM": ("hyperclovax_vision_v2",),
    "Idefics2ForConditionalGeneration": ("idefics2",),
    "InstructBlipForConditionalGeneration": ("instructblip",),
    "InternS1ForConditionalGeneration": ("interns1",),
    "InternVLChatModel": ("internvl_chat",),
    "InternVLForConditionalGeneration": ("internvl",),
    "JanusForConditionalGeneration": ("janus",),
    "LightOnOCRForConditionalGeneration": ("lightonocr",),
    "LightOnOcrForConditionalGeneration": ("lighton_ocr",),
    "LlavaForConditionalGeneration": ("llava",),
    "LlavaNextForConditionalGeneration": ("llava_next",),
    "LlavaNextVideoForConditionalGeneration": ("llava_next_video",),
    "LlavaOnevisionForConditionalGeneration": ("llava_onevision",),
    "Llama_Nemotron_Nano_VL": ("Llama_Nemotron_Nano_VL",),
    "MantisForConditionalGeneration": (),
    "Mistral3ForConditionalGeneration": ("mistral3",),
    "MusicFlamingoForConditionalGeneration": ("musicflamingo",),
    "NVLM_D": ("NVLM_D",),
    "OpenVLAForActionPrediction": ("openvla",),
    "Ovis": ("ovis",),
    "Ovis2ForConditionalGeneration": ("ovis2",),
    "Ovis2_5": ("ovis2_5",),
    "Ovis2_6ForCausalLM": ("ovis2_6",),
    "Ovis2_6_MoeForCausalLM": ("ovis2_6_moe",),
    "PaliGemmaForConditionalGeneration": ("paligemma",),
    "PerceptionLMForConditionalGeneration": ("perception_lm",),
    "PixtralForConditionalGeneration": ("pixtral",),
    "QianfanOCRForConditionalGeneration": ("qianfan_ocr",),
    "RForConditionalGeneration": ("R",),
    "SkyworkR1VChatModel": ("skywork_chat",),
    "TarsierForConditionalGeneration": ("tarsier",),
    "AndesVLForConditionalGeneration": ("andesvl-aimv2-qwen3",),
    "UltravoxModel": ("ultravox",),
    "VideoLlavaForConditionalGeneration": ("video_llava",),
    "VipLlavaForConditionalGeneration": ("vipllava",),
    "VoxtralForConditionalGeneration": ("voxtral",),
}

# Inner architecture: the wrappers that fix it, with their model types.
_FIXED: dict[str, dict[str, tuple[str, ...]]] = {
    "AriaTextForCausalLM": {"AriaForConditionalGeneration": ("aria",)},
    "CohereCompassForCausalLM": {"CohereCompassForConditionalGeneration": ("cohere_compass",)},
    "Emu3ForCausalLM": {"Emu3ForConditionalGeneration": ("emu3",)},
    "Ernie4_5ForCausalLM": {"PaddleOCRVLForConditionalGeneration": ("paddleocr_vl",)},
    "Ernie4_5_MoeForCausalLM": {"Ernie4_5_VLMoeForConditionalGeneration": ("ernie4_5_vl_moe", "ernie4_5_moe_vl")},
    "Exaone4ForCausalLM": {"Exaone4_5_ForConditionalGeneration": ("exaone4_5",)},
    "Gemma3ForCausalLM": {"Gemma3ForConditionalGeneration": ("gemma3",)},
    "Gemma3nForCausalLM": {"Gemma3nForConditionalGeneration": ("gemma3n",)},
    "Glm4ForCausalLM": {
        "Glm4vForConditionalGeneration": ("glm4v",),
        "GlmOcrForConditionalGeneration": ("glm_ocr",),
    },
    "Glm4MoeForCausalLM": {"Glm4vMoeForConditionalGeneration": ("glm4v_moe",)},
    "GraniteForCausalLM": {"Granite4VisionForConditionalGeneration": ("granite4_vision",)},
    "HunYuanDenseV1ForCausalLM": {"HunYuanVLForConditionalGeneration": ("hunyuan_vl",)},
    "LlamaForCausalLM": {
        "ChameleonForConditionalGeneration": ("chameleon",),
        "GlmAsrForConditionalGeneration": ("glmasr",),
        "Idefics3ForConditionalGeneration": ("idefics3",),
        "KananaVForConditionalGeneration": ("kanana-1.5-v",),
        "LlavaLlamaForCausalLM": ("llava_llama",),
        "Phi3VForCausalLM": ("phi3_v",),
        "Phi4MMForCausalLM": ("phi4mm",),
        "SmolVLMForConditionalGeneration": ("smolvlm",),
    },
    "PersimmonForCausalLM": {"FuyuForCausalLM": ("fuyu",)},
    "Phi3ForCausalLM": {"Phi4ForCausalLMV": ("phi4-siglip",), "Phi4MultimodalForCausalLM": ("phi4_multimodal",)},
    "Qwen2ForCausalLM": {
        "AudioFlamingo3ForConditionalGeneration": ("audioflamingo3",),
        "BagelForConditionalGeneration": ("bagel",),
        "DotsOCRForCausalLM": ("dots_ocr",),
        "FireRedASR2ForConditionalGeneration": ("fireredasr2",),
        "JinaVLForRanking": (),
        "MiDashengLMModel": ("midashenglm",),
        "MoonshotKimiaForCausalLM": ("kimi_audio",),
        "OpenCUAForConditionalGeneration": ("opencua",),
        "Qwen2AudioForConditionalGeneration": ("qwen2_audio",),
        "Qwen2VLForConditionalGeneration": ("qwen2_vl",),
        "Qwen2_5OmniForConditionalGeneration": ("qwen2_5_omni",),
        "Qwen2_5OmniModel": (),
        "Qwen2_5OmniThinkerForConditionalGeneration": ("qwen2_5_omni_thinker",),
        "Qwen2_5_VLForConditionalGeneration": ("qwen2_5_vl",),
        "Tarsier2ForConditionalGeneration": ("tarsier2",),
        "VibeVoiceAsrForConditionalGeneration": ("vibevoice_asr",),
    },
    "Qwen3ForCausalLM": {
        "Alpamayo2Super": ("alpamayo2_super",),
        "Cosmos3ForConditionalGeneration": ("cosmos3_omni",),
        "FunASRForConditionalGeneration": ("funasr",),
        "FunAudioChatForConditionalGeneration": ("funaudiochat",),
        "IsaacForConditionalGeneration": ("isaac",),
        "KeyeForConditionalGeneration": ("Keye",),
        "KeyeVL1_5ForConditionalGeneration": ("KeyeVL1_5",),
        "LogicsForConditionalGeneration": ("logics",),
        "LlavaOnevision2ForConditionalGeneration": ("llava_onevision2",),
        "MossAudioModel": ("moss_audio",),
        "MossTranscribeDiarizeForConditionalGeneration": ("moss_transcribe_diarize",),
        "Qwen3ASRForConditionalGeneration": ("qwen3_asr",),
        "Qwen3ASRRealtimeGeneration": (),
        "Qwen3VLForConditionalGeneration": ("qwen3_vl",),
    },
    "Qwen3MoeForCausalLM": {
        "InternS1ProForConditionalGeneration": ("interns1_pro",),
        "Qwen3OmniMoeForConditionalGeneration": ("qwen3_omni_moe",),
        "Qwen3OmniMoeThinkerForConditionalGeneration": ("qwen3_omni_moe_thinker",),
        "Qwen3VLMoeForConditionalGeneration": ("qwen3_vl_moe",),
    },
}

for _name, _types in _OPEN.items():
    reads(_name, model_types=_types)(wraps())
for _inner, _wrappers in _FIXED.items():
    for _name, _types in _wrappers.items():
        reads(_name, model_types=_types)(wraps(_inner))


@reads("DeepseekVLV2ForCausalLM", model_types=("deepseek_vl_v2",))
@reads("DeepseekOCRForCausalLM", "DeepseekOCR2ForCausalLM")
def read_deepseek(config: Fields) -> Shape:
    """Return the shape of a DeepSeek-VL2 or DeepSeek-OCR; a section that names no class is a DeepSeek-V2's."""
    return language_model(config, otherwise="DeepseekV2ForCausalLM")


@reads("LlamaNemotronVLModel", "LlamaNemotronVLForSequenceClassification", model_types=("llama_nemotron_vl",))
def read_nemotron_embedding(config: Fields) -> Shape:
    """Return the shape of a Llama Nemotron VL for retrieval, which attends in both directions."""
    return encoder(language_model(config))


@reads("MiniCPMV", model_types=("minicpmv",))
def read_minicpmv(config: Fields) -> Shape:
    """Return the shape of a MiniCPM-V, whose version decides the language model."""
    inner = {"2.0": "MiniCPMForCausalLM", "2.5": "LlamaForCausalLM", "2.6": "Qwen2ForCausalLM",
             "4.0": "LlamaForCausalLM", "4.5": "Qwen3ForCausalLM"}  # fmt: skip
    version = _version(config)
    if version is None:  # the first two releases carry no version; they differ in width
        first = config.integer("hidden_size") == 2304 and config.maybe_integer("query_num") == 64
        version = "2.0" if first else "2.5"
    return _versioned(config, version, inner)


@reads("MiniCPMO", model_types=("minicpmo",))
def read_minicpmo(config: Fields) -> Shape:
    """Return the shape of a MiniCPM-o, whose version decides the language model."""
    return _versioned(config, _version(config) or "2.6", {"2.6": "Qwen2ForCausalLM", "4.5": "Qwen3ForCausalLM"})


@reads("InfiMMZephyrModel", model_types=("infimm-zephyr",))
def read_infimm(config: Fields) -> Shape:
    """Return the shape of an InfiMM's language model.

    Its gated cross attention reads a fixed number of image states, which no engine keeps in its KV cache.
    """
    return replace(language_model(config), prefix_lm=False)


def _version(config: Fields) -> str | None:
    """Return the version as text; checkpoints write it as a number or as a word."""
    if isinstance(config.raw("version"), str):
        return config.maybe_text("version")
    number = config.maybe_number("version")
    return None if number is None else str(number)


def _versioned(config: Fields, version: str, inner: dict[str, str]) -> Shape:
    if version not in inner:
        raise config.bad("version", f"one of {', '.join(inner)}", version)
    return language_model(config, inner[version])
