"""Encoder-decoder models: a decoder layer keeps its own keys and values and those of the encoder's tokens."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import GroupedQuery, geometry
from kvplan.model.fields import MAX_LAYERS, Fields
from kvplan.model.spec import Cross, Full, Layer, Shape


@reads("WhisperForConditionalGeneration", model_types=("whisper",))
@reads("BartForConditionalGeneration", "BartModel", model_types=("bart",))
@reads("MBartForConditionalGeneration", model_types=("mbart",))
@reads("Florence2ForConditionalGeneration", model_types=("florence2",))
def read(config: Fields) -> Shape:
    """Return the shape of a model with BART's decoder, which is multi-head."""
    heads = config.integer("decoder_attention_heads")
    return _decoder(config, heads, config.layers("decoder_layers"), "d_model")


@reads("T5ForConditionalGeneration", model_types=("t5",))
@reads("MT5ForConditionalGeneration", model_types=("mt5",))
@reads("UMT5ForConditionalGeneration", model_types=("umt5",))
def read_t5(config: Fields) -> Shape:
    """Return the shape of a T5, whose heads have a dimension of their own."""
    heads = config.integer("num_heads")
    head_dim = config.integer("d_kv")
    layers = config.layers("num_decoder_layers", "num_layers")
    return _cross(GroupedQuery(heads, heads, head_dim, head_dim), layers)


@reads("DonutForConditionalGeneration", "VisionEncoderDecoderModel", model_types=("vision-encoder-decoder",))
@reads("NemotronParseForConditionalGeneration", model_types=("nemotron_parse",))
def read_nested(config: Fields) -> Shape:
    """Return the shape of a vision encoder with a BART decoder in the section `decoder`."""
    decoder = _section(config.root, "decoder")
    heads = decoder.integer("decoder_attention_heads")
    return _decoder(decoder, heads, decoder.layers("decoder_layers"), "d_model")


@reads("RadioMBartPrefixForCausalLM")
def read_prefix(config: Fields) -> Shape:
    """Return the shape of a Nemotron Parse 3.5, whose image states are a prefix of the decoder's own tokens."""
    decoder = _section(config.root, "decoder")
    heads = decoder.integer("decoder_attention_heads")
    kv_heads = decoder.maybe_integer("self_attention_kv_heads") or heads
    head_dim = _divided(decoder, "d_model", "decoder_attention_heads", heads)
    one = geometry(decoder, heads, kv_heads, head_dim, name="self_attention_kv_heads")
    return one.shape([one.full()] * decoder.layers("decoder_layers"))


@reads("CohereAsrForConditionalGeneration", model_types=("cohere_asr",))
def read_cohere_asr(config: Fields) -> Shape:
    """Return the shape of Cohere's speech recogniser, whose decoder is described in transf_decoder.config_dict."""
    decoder = _section(_section(config.root, "transf_decoder"), "config_dict")
    heads = decoder.integer("num_attention_heads")
    return _decoder(decoder, heads, decoder.layers("num_layers"), "hidden_size")


@reads("MllamaForConditionalGeneration", model_types=("mllama",))
@reads("MllamaForCausalLM", model_types=("mllama_text_model",))
def read_mllama(config: Fields) -> Shape:
    """Return the shape of a Llama 3.2 Vision: cross_attention_layers read image states, the others text."""
    heads = config.integer("num_attention_heads")
    kv_heads = config.integer("num_key_value_heads")
    one = geometry(config, heads, kv_heads, _divided(config, "hidden_size", "num_attention_heads", heads))
    count = config.layers()
    crossing = config.maybe_integers("cross_attention_layers", high=MAX_LAYERS)
    if crossing is None:
        raise config.lacks("cross_attention_layers")
    if crossing and max(crossing) >= count:
        raise config.contradicts(
            "cross_attention_layers", "num_hidden_layers", why=f"layer {max(crossing)} of {count} layers"
        )
    cross: Layer = (Cross(one.kv_heads, one.head_dim, one.head_dim_v),)
    return one.shape([cross if i in set(crossing) else one.full() for i in range(count)], kind="encoder-decoder")


def _decoder(config: Fields, heads: int, layers: int, hidden: str) -> Shape:
    head_dim = _divided(config, hidden, "decoder_attention_heads", heads)
    return _cross(GroupedQuery(heads, heads, head_dim, head_dim), layers)


def _cross(one: GroupedQuery, layers: int) -> Shape:
    layer: Layer = (
        Full(one.kv_heads, one.head_dim, one.head_dim_v),
        Cross(one.kv_heads, one.head_dim, one.head_dim_v),
    )
    return one.shape([layer] * layers, kind="encoder-decoder")


def _divided(config: Fields, hidden: str, name: str, heads: int) -> int:
    width = config.integer(hidden)
    if width < heads:
        raise config.contradicts(hidden, name, why=f"{width} channels for {heads} heads")
    return width // heads


def _section(config: Fields, name: str) -> Fields:
    section = config.maybe_section(name)
    if section is None:
        raise config.lacks(name)
    return section
