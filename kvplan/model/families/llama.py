"""Llama and the many that are built from its layers: grouped-query attention, a window by layer or for all layers."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    by_types,
    causal_or_encoder,
    grouped_query,
    model_wide,
    sliding_types,
    sliding_window,
)
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


@reads("LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel", "Fairseq2LlamaForCausalLM", model_types=("llama",))
@reads("MistralForCausalLM", "MistralModel", "GritLM", model_types=("mistral", "voxtral_realtime_text"))
@reads("Ministral3ForCausalLM", model_types=("ministral3",))
@reads("Phi3ForCausalLM", model_types=("phi3",))
@reads("Ernie4_5ForCausalLM", model_types=("ernie4_5", "paddleocr_vl_text"))
@reads("InternLM3ForCausalLM", model_types=("internlm3",))
@reads("XverseForCausalLM", model_types=("xverse",))
@reads("AquilaForCausalLM", "AquilaModel", model_types=("aquila",))
@reads("IQuestCoderForCausalLM", model_types=("iquestcoder",))
@reads("TeleChat3ForCausalLM", model_types=("telechat3",))
@reads("TeleFLMForCausalLM", model_types=("TeleFLM",))
@reads("AriaTextForCausalLM", model_types=("aria_text",))
@reads("ApertusForCausalLM", model_types=("apertus",))
@reads(  # EAGLE drafts, whose layers are Llama's whatever they draft for
    "EagleLlamaForCausalLM",
    "Eagle3LlamaForCausalLM",
    "LlamaForCausalLMEagle3",
    "Eagle3MiniMaxM2ForCausalLM",
    "Eagle3Qwen2_5vlForCausalLM",
    "Eagle3Qwen3vlForCausalLM",
    "EagleMistralForCausalLM",
    "PeagleLlamaForCausalLM",
    "PEagleDraftModel",
)
def read(config: Fields) -> Shape:
    """Return the shape of a model of Llama layers; is_causal false makes an embedding model without caches of it."""
    heads = grouped_query(config)
    count = config.layers()
    types = sliding_types(config, count)
    window = sliding_window(config)
    layers = model_wide(heads, count, None, window) if types is None else by_types(heads, types, window)
    return causal_or_encoder(config, heads.shape(layers))


@reads("LlamaBidirectionalModel", "LlamaBidirectionalForSequenceClassification", model_types=("llama_bidirec",))
def read_bidirectional(config: Fields) -> Shape:
    """Return the shape of a Llama that attends in both directions (embedding and reranking models)."""
    heads = grouped_query(config)
    return heads.shape([()] * config.layers(), kind="encoder")


@reads("InternLMForCausalLM", model_types=("internlm",))
def read_internlm(config: Fields) -> Shape:
    """Return the shape of a first-generation InternLM, which is multi-head throughout."""
    heads = grouped_query(config)
    return heads.shape([heads.full()] * config.layers())
