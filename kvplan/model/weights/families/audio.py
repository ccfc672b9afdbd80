"""Language models that hear: Qwen2-Audio, Audio Flamingo 3, GLM-ASR and Qwen3-ASR."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.weights.families import weighs
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import encoder_layer, language_model, section, tower, unquantised

_NORMS = ("self_attn_layer_norm", "final_layer_norm")


def _convolutions(at: Scope, hidden: int, bands: int) -> list[Part]:
    return [
        at.tensor("conv1.weight", hidden, bands, 3),
        at.tensor("conv1.bias", hidden),
        at.tensor("conv2.weight", hidden, hidden, 3),
        at.tensor("conv2.bias", hidden),
    ]


def whole_encoder(config: Fields, *, last: str = "layer_norm", learned: bool = True) -> list[Part]:
    """Return Whisper's encoder as Hugging Face builds it: whole on every rank, keys without a bias.

    `last` is its last norm; `learned`: positions are.
    """
    at, hidden = tower("audio_tower"), config.integer("d_model", "hidden_size")
    layers = at.under("layers.{}").copies(config.integer("encoder_layers", "num_hidden_layers"))
    width = config.integer("encoder_ffn_dim", "intermediate_size")
    positions = at.tensor("embed_positions.weight", config.integer("max_source_positions"), hidden)
    forward = (("fc1", width, hidden), ("fc2", hidden, width))
    square = (("q_proj", True), ("k_proj", False), ("v_proj", True), ("out_proj", True))
    return unquantised(
        [
            *_convolutions(at, hidden, config.integer("num_mel_bins")),
            *([positions] if learned else []),
            *(layers.linear(f"self_attn.{name}", hidden, hidden, Role.TOWER, bias=bias) for name, bias in square),
            *(layers.linear(name, rows, columns, Role.TOWER, bias=True) for name, rows, columns in forward),
            *layers.norms(hidden, *_NORMS, bias=True),
            *at.norm(last, hidden, bias=True),
        ]
    )


def audio_encoder(config: Fields, prefix: str) -> list[Part]:
    """Return Whisper's encoder: two convolutions over mel bands, learned positions, biased layers."""
    hidden, bands = config.integer("d_model"), config.integer("num_mel_bins")
    at = tower(prefix)
    layers = at.under("layers.{}").copies(config.integer("encoder_layers"))
    return [
        *_convolutions(at, hidden, bands),
        at.tensor("embed_positions.weight", config.integer("max_source_positions"), hidden),
        *encoder_layer(layers, hidden, config.integer("encoder_ffn_dim"), norms=_NORMS, forward=("fc1", "fc2")),
        *at.norm("layer_norm", hidden, bias=True),
    ]


@weighs("Qwen2AudioForConditionalGeneration")
def qwen2_audio(text: Text) -> list[Part]:
    """Return the parts of a Qwen2-Audio."""
    audio = section(text, "audio_config")
    linear = tower("multi_modal_projector").linear(
        "linear", text.hidden, audio.integer("d_model"), Role.TOWER, bias=True, kind="plain"
    )
    return [*whole_encoder(audio), linear, *language_model(text, "Qwen2ForCausalLM")]


@weighs("AudioFlamingo3ForConditionalGeneration")
def audio_flamingo(text: Text) -> list[Part]:
    """Return the parts of an Audio Flamingo 3."""
    audio, at = section(text, "audio_config"), tower("multi_modal_projector")
    bias = text.config.root.flag("projector_bias", default=True)
    width = audio.integer("d_model", "hidden_size")
    return [
        *whole_encoder(audio),
        at.linear("linear_1", text.hidden, width, Role.TOWER, bias=bias),
        at.linear("linear_2", text.hidden, text.hidden, Role.TOWER, bias=bias),
        *language_model(text, "Qwen2ForCausalLM"),
    ]


@weighs("UltravoxModel")
def ultravox(text: Text) -> list[Part]:
    """Return the parts of an Ultravox: Whisper's encoder, split, and a gated projector over stacked frames."""
    audio, root, at = section(text, "audio_config"), text.config.root, tower("multi_modal_projector")
    width = audio.integer("d_model")
    stacked, inner = width * root.integer("stack_factor", default=8), root.integer("hidden_size", default=4096)
    middle = inner // 2 if root.maybe_text("projector_act") in (None, "swiglu") else inner
    norm, size = ("ln_mid", middle) if root.flag("projector_ln_mid") else ("ln_post", text.hidden)
    return [
        *audio_encoder(audio, "audio_tower"),
        *at.norm("ln_pre", stacked),
        at.linear("linear_1", inner, stacked, Role.TOWER, kind="plain"),
        at.linear("linear_2", text.hidden, middle, Role.TOWER, kind="plain"),
        *at.norm(norm, size),
        *language_model(text),
    ]


@weighs("GlmAsrForConditionalGeneration")
def glm_asr(text: Text) -> list[Part]:
    """Return the parts of a GLM-ASR: a split encoder with rotary positions, four frames merged into one."""
    audio, at, projector = section(text, "audio_config"), tower("audio_tower"), tower("multi_modal_projector")
    hidden, width = audio.integer("hidden_size"), audio.integer("intermediate_size")
    layers = at.under("layers.{}").copies(audio.integer("num_hidden_layers"))
    dim = audio.maybe_integer("head_dim") or hidden // audio.integer("num_attention_heads")
    norms = ("input_layernorm", "post_attention_layernorm")
    return [
        *_convolutions(at, hidden, audio.integer("num_mel_bins")),
        *encoder_layer(layers, hidden, width, out="self_attn.o_proj", norms=norms),
        *at.norm("norm", hidden, bias=True),
        at.table("rotary_emb.inv_freq", dim // 4),
        projector.linear("linear_1", 2 * text.hidden, width, bias=True),
        projector.linear("linear_2", text.hidden, 2 * text.hidden, Role.ROW, bias=True),
        *language_model(text, "LlamaForCausalLM"),
    ]


@weighs("Qwen3ASRForConditionalGeneration", "Qwen3ASRRealtimeGeneration")
def qwen3_asr(text: Text) -> list[Part]:
    """Return the parts of a Qwen3-ASR: three 2-D convolutions over the mel bands, then a split encoder."""
    audio, at = section(text, "audio_config"), tower("audio_tower")
    return [*omni_encoder(audio, at), *language_model(text, "Qwen3ForCausalLM")]


def omni_encoder(audio: Fields, at: Scope) -> list[Part]:
    """Return the audio encoder of Qwen3-Omni and Qwen3-ASR."""
    hidden, channels = audio.integer("d_model"), audio.integer("downsample_hidden_size")
    bands = audio.integer("num_mel_bins")
    for _ in range(3):
        bands = (bands + 1) // 2
    layers = at.under("layers.{}").copies(audio.integer("encoder_layers"))
    inputs, positions = (1, channels, channels), audio.integer("max_source_positions", default=1500)
    convolutions: list[Part] = []
    for index, channel in enumerate(inputs, start=1):
        convolutions.append(at.tensor(f"conv2d{index}.weight", channels, channel, 3, 3))
        convolutions.append(at.tensor(f"conv2d{index}.bias", channels))
    return [
        *convolutions,
        at.linear("conv_out", hidden, channels * bands, Role.TOWER),
        *encoder_layer(layers, hidden, audio.integer("encoder_ffn_dim"), forward=("fc1", "fc2"), norms=_NORMS),
        *at.norm("ln_post", hidden, bias=True),
        at.linear("proj1", hidden, hidden, Role.TOWER, bias=True),
        at.linear("proj2", audio.integer("output_dim"), hidden, Role.TOWER, bias=True),
        at.table("positional_embedding.positional_embedding", positions, hidden),
    ]
