"""Whisper: an audio encoder and a decoder that also attends to it; the embedding is not split over ranks."""

from __future__ import annotations

from kvplan.model.weights.blocks import kv_scales
from kvplan.model.weights.families import weighs
from kvplan.model.weights.families.audio import audio_encoder
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import encoder_layer

_NORMS = ("self_attn_layer_norm", "final_layer_norm")
_FORWARD = ("fc1", "fc2")


@weighs("WhisperForConditionalGeneration")
def whisper(text: Text) -> list[Part]:
    """Return the parts of a Whisper; keys have no bias in the checkpoint, but room for one in the engine."""
    config, hidden = text.config, text.hidden
    decoder = Scope("model.decoder.")
    layers = text.at("model.decoder.layers.{}")
    layer = encoder_layer(layers, hidden, config.integer("decoder_ffn_dim"), norms=_NORMS, forward=_FORWARD)
    cross = encoder_layer(layers.under("encoder_attn"), hidden, 0, names=("q_proj", "k_proj", "v_proj"), out="out_proj")
    return [
        *audio_encoder(config, "model.encoder"),
        decoder.tensor("embed_tokens.weight", text.vocabulary, hidden),
        decoder.tensor("embed_positions.weight", config.integer("max_target_positions"), hidden),
        *layer,
        *(part for part in cross if part.name.endswith("_proj")),
        *layers.norm("encoder_attn_layer_norm", hidden, bias=True),
        *decoder.norm("layer_norm", hidden, bias=True),
        kv_scales(layers),
        kv_scales(layers, "encoder_attn"),
    ]
