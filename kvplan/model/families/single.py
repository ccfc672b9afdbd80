"""Models with field names or a rule of their own that share neither with another family."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import (
    SLIDING,
    by_types,
    divided_hidden,
    geometry,
    grouped_query,
    layer_overrides,
    sliding_types,
    sliding_window,
)
from kvplan.model.families._multimodal import prefix_lm
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


@reads("TeleChat2ForCausalLM", "TeleChatForCausalLM", model_types=("telechat",))
def read_telechat(config: Fields) -> Shape:
    """Return the shape of a TeleChat or TeleChat 2: Llama's layers under GPT-2's names."""
    heads = config.integer("n_head", "num_attention_heads")
    kv_heads = config.maybe_integer("num_key_value_heads") or heads
    one = geometry(config, heads, kv_heads, config.maybe_integer("head_dim") or divided_hidden(config, heads))
    return one.shape([one.full()] * config.layers("n_layer", "num_hidden_layers"))


@reads("Grok1ModelForCausalLM", "Grok1ForCausalLM", model_types=("grok-1",))
def read_grok(config: Fields) -> Shape:
    """Return the shape of a Grok 1 or 2, whose attention logits are capped unless attn_logit_softcapping is 0."""
    heads = grouped_query(config)
    capped = config.maybe_number("attn_logit_softcapping") != 0
    return heads.shape([heads.full()] * config.layers(), softcap=capped)


@reads("MolmoForCausalLM", model_types=("molmo",))
def read_molmo(config: Fields) -> Shape:
    """Return the shape of a Molmo, a flat multimodal config."""
    heads = grouped_query(config, own_head_dim=False)
    return heads.shape([heads.full()] * config.layers(), prefix_lm=prefix_lm(config.root))


@reads("Molmo2ForConditionalGeneration", model_types=("molmo2",))
def read_molmo2(config: Fields) -> Shape:
    """Return the shape of a Molmo 2."""
    heads = grouped_query(config)
    return heads.shape([heads.full()] * config.layers(), prefix_lm=prefix_lm(config.root))


@reads("Moondream3ForCausalLM", "HfMoondream", model_types=("moondream3",))
def read_moondream(config: Fields) -> Shape:
    """Return the shape of a Moondream 3, whose language model is described in config.text."""
    outer = config.root.maybe_section("config")
    inner = outer.maybe_section("text") if outer is not None else None
    text = inner if inner is not None else config
    if config.root.model_type == "moondream3":  # released with an empty `config`: its class supplies all of it
        text = text.as_type("moondream3_text")
    heads = text.integer("n_heads")
    width = text.integer("dim")
    if width < heads:
        raise text.contradicts("dim", "n_heads", why=f"{width} channels for {heads} heads")
    one = geometry(text, heads, text.integer("n_kv_heads"), width // heads, name="n_kv_heads")
    return one.shape([one.full()] * text.layers("n_layers"), prefix_lm=prefix_lm(config.root))


@reads("Plamo3ForCausalLM", model_types=("plamo3",))
def read_plamo3(config: Fields) -> Shape:
    """Return the shape of a PLaMo 3; interleaved_sliding_window holds a width or null a layer."""
    heads = grouped_query(config)
    count = config.layers()
    widths = config.raw("interleaved_sliding_window")
    if not isinstance(widths, list):
        raise config.lacks("interleaved_sliding_window")
    if len(widths) != count:
        raise config.contradicts(
            "interleaved_sliding_window", "num_hidden_layers", why=f"{len(widths)} entries for {count} layers"
        )
    sections = [Fields({"interleaved_sliding_window": width}, root=config.root) for width in widths]
    return heads.shape([heads.within(one.maybe_integer("interleaved_sliding_window")) for one in sections])


@reads("BeamForCausalLM", model_types=("beam",))
def read_beam(config: Fields) -> Shape:
    """Return the shape of a Beam: sliding layers where it gives no layer types (vLLM's own BeamConfig)."""
    heads = grouped_query(config)
    count = config.layers()
    types = sliding_types(config, count) or [SLIDING] * count
    return heads.shape(by_types(heads, types, sliding_window(config)))


@reads("MuseSparkForConditionalGeneration", model_types=("muse_spark",))
def read_muse_spark(config: Fields) -> Shape:
    """Return the shape of a Muse Spark's language model, whose layer types must be given."""
    heads = grouped_query(config)
    types = sliding_types(config, config.layers())
    if types is None:
        raise config.lacks("layer_types")
    return heads.shape(by_types(heads, types, sliding_window(config)))


@reads("EmbeddingGemma2Model", model_types=("embedding_gemma2",))
def read_embedding_gemma2(config: Fields) -> Shape:
    """Return the shape of an EmbeddingGemma 2, which attends in both directions."""
    heads = grouped_query(config)
    return heads.shape([()] * config.layers(), kind="encoder")


@reads("DomynEdgeForCausalLM", model_types=("domyn_edge",))
def read_domyn(config: Fields) -> Shape:
    """Return the shape of a Domyn Edge: a head dimension and a (left, right) window by layer."""
    heads = config.integer("num_attention_heads")
    kv_heads = config.integer("num_key_value_heads")
    count = config.layers()
    overrides = layer_overrides(config, count) or [None] * count
    own = [layer.maybe_integer("head_dim") if layer is not None else None for layer in overrides]
    layers = [geometry(config, heads, kv_heads, dim or config.integer("head_dim")) for dim in own]
    widest = max(layers, key=lambda one: one.head_dim)
    return widest.shape([one.within(left) for one, left in zip(layers, _left_windows(config, count), strict=True)])


def _left_windows(config: Fields, count: int) -> list[int | None]:
    """Return the tokens that each layer sees, itself included (vLLM, domyn_edge.py); 0 or less to the left: all."""
    windows = config.raw("window_sizes")
    if not isinstance(windows, list):
        raise config.lacks("window_sizes")
    if len(windows) != count:
        raise config.contradicts("window_sizes", "num_hidden_layers", why=f"{len(windows)} for {count} layers")
    found: list[int | None] = []
    for i, pair in enumerate(windows):
        if not isinstance(pair, list) or not pair:
            raise config.bad(f"window_sizes[{i}]", "a pair of integers", pair)
        left = Fields({"left": pair[0]}, where=f"window_sizes[{i}]", root=config.root).integer("left", low=-1)
        found.append(left + 1 if left > 0 else None)
    return found
