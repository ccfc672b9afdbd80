"""Gemma 3n: several residual streams, embeddings by layer, layers without keys and values; eyes and ears.

Its towers are built from Hugging Face's own classes, whole on every rank.
"""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.spec import Shared
from kvplan.model.weights.blocks import attention, gated, kv_scales
from kvplan.model.weights.dense import FOUR_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import MODEL, Part, Role, Stage
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import language_model, section, tower, unquantised

# timm's mobilenetv5_300m_enc, the only tower that Gemma 3n has: parameters of its convolutions and norms (timm 1.0)
_MOBILENET_V5 = 294_126_912


@weighs("Gemma3nForCausalLM")
def gemma3n(text: Text) -> list[Part]:
    """Return the parts of a Gemma 3n: several residual streams (AltUp), low-rank side paths, embeddings by layer."""
    at, hidden, config = text.at(), text.hidden, text.config
    streams = config.integer("altup_num_inputs")
    by_layer = config.integer("hidden_size_per_layer_input")
    rank = config.integer("laurel_rank")
    first, last = Scope(stage=Stage.FIRST), Scope(stage=Stage.LAST)
    total = by_layer * len(text.layers)
    rows = config.integer("vocab_size_per_layer_input")
    return [
        *ends(text, tied=True),
        first.linear("model.embed_tokens_per_layer", rows, total, Role.VOCABULARY, kind="embedding"),
        first.linear("model.per_layer_model_projection", total, hidden),
        *first.norm("model.per_layer_projection_norm", by_layer),
        *(first.linear(f"model.altup_projections.{i}", hidden, hidden) for i in range(streams - 1)),
        *(last.linear(f"model.altup_unembed_projections.{i}", hidden, hidden) for i in range(streams - 1)),
        at.tensor("altup.correct_output_scale", hidden, dtype="float32"),
        at.tensor("altup.correction_coefs.weight", streams, streams),
        at.tensor("altup.prediction_coefs.weight", streams * streams, streams),
        at.tensor("altup.modality_router.weight", streams, hidden),
        *at.norm("altup.router_norm", hidden),
        at.linear("laurel.linear_left", rank, hidden),
        at.linear("laurel.linear_right", hidden, rank, Role.ROW),
        at.tensor("per_layer_input_gate.weight", by_layer, hidden),
        at.tensor("per_layer_projection.weight", hidden, by_layer),
        *at.norms(hidden, "laurel.post_laurel_norm", "post_per_layer_input_norm", *FOUR_NORMS),
        *_attention(text),
        *gated(at, hidden, text.intermediate),
        *rope_table(config, text.shape.head_dim, layer_type="full_attention"),
        *rope_table(config, text.shape.head_dim, layer_type="sliding_attention", scaled=False),
        at.table("altup.router_input_scale", dtype=MODEL),
        Scope().table("model.embed_scales", 4, dtype=MODEL),
    ]


def _attention(text: Text) -> list[Part]:
    """Return attention where the last layers have no keys and values: they read an earlier layer's."""
    sharing = [i for i in text.layers if isinstance(text.shape.layers[i][0], Shared)]
    own, rest = text.at(layers=[i for i in text.layers if i not in sharing]), text.at(layers=sharing)
    dim, hidden, width = text.shape.head_dim, text.hidden, text.shape.heads * text.shape.head_dim
    return [
        *attention(own, text),
        *text.at().norm("self_attn.q_norm", dim),
        *own.norm("self_attn.k_norm", dim),
        rest.linear("self_attn.q_proj", width, hidden),
        rest.linear("self_attn.o_proj", hidden, width, Role.ROW),
        kv_scales(rest),
    ]


@weighs("Gemma3nForConditionalGeneration")
def multimodal(text: Text) -> list[Part]:
    """Return the parts of a multimodal Gemma 3n."""
    vision, audio = section(text), section(text, "audio_config")
    return [
        tower("vision_tower").tensor("timm_model", _MOBILENET_V5, role=Role.TOWER),
        *_embedder("embed_vision", vision, text.hidden),
        *_conformer(audio),
        *_embedder("embed_audio", audio, text.hidden),
        *language_model(text, "Gemma3nForCausalLM"),
    ]


def _embedder(name: str, config: Fields, out: int) -> list[Part]:
    at, hidden = tower(name), config.integer("hidden_size")
    return [
        at.tensor("embedding.weight", config.integer("vocab_size"), hidden, role=Role.VOCABULARY),
        *at.norms(hidden, "hard_embedding_norm", "soft_embedding_norm"),
        at.linear("embedding_projection", out, hidden, Role.ROW),
    ]


def _conformer(config: Fields) -> list[Part]:
    """Return the conformer: two half feed-forward layers around attention and a convolution."""
    at, hidden, heads = tower("audio_tower"), config.integer("hidden_size"), config.integer("conf_num_attention_heads")
    layers = at.under("conformer.{}").copies(config.integer("conf_num_hidden_layers"))
    channels = config.maybe_integers("sscp_conv_channel_size", exactly=2) or [128, 32]
    bands = config.integer("input_feat_size")
    for _ in channels:
        bands = (bands + 1) // 2
    left, right = config.integer("conf_attention_context_left"), config.integer("conf_attention_context_right", low=0)
    chunk = config.integer("conf_attention_chunk_size")
    whole, first, halves = Role.TOWER, at.under("subsample_conv_projection"), ("ffw_layer_start", "ffw_layer_end")
    squares = [layers.linear(f"attention.attn.{name}_proj", hidden, hidden, whole) for name in "qkv"]
    return unquantised([
        first.tensor("conv_0.conv.weight", channels[0], 1, 3, 3),
        *first.norm("conv_0.norm", channels[0]),
        first.tensor("conv_1.conv.weight", channels[1], channels[0], 3, 3),
        *first.norm("conv_1.norm", channels[1]),
        first.linear("input_proj_linear", hidden, channels[1] * bands, whole),
        *(
            layers.linear(f"{half}.{name}", *size, whole)
            for half in halves
            for name, size in (("ffw_layer_1", (4 * hidden, hidden)), ("ffw_layer_2", (hidden, 4 * hidden)))
        ),
        *squares,
        layers.linear("attention.attn.relative_position_embedding.pos_proj", hidden, hidden, whole),
        layers.linear("attention.post", hidden, hidden, whole),
        layers.tensor("attention.attn.per_dim_scale", hidden // heads),
        layers.linear("lconv1d.linear_start", 2 * hidden, hidden, whole),
        layers.tensor("lconv1d.depthwise_conv1d.weight", hidden, 1, config.integer("conf_conv_kernel_size")),
        layers.linear("lconv1d.linear_end", hidden, hidden, whole),
        *layers.norms(
            hidden,
            *(f"{half}.{which}_layer_norm" for half in halves for which in ("pre", "post")),
            "attention.pre_attn_norm", "attention.post_norm", "lconv1d.pre_layer_norm", "lconv1d.conv_norm", "norm",
        ),
        layers.table("clippings", 6, dtype=MODEL),
        layers.table("attention.attn.local_causal_valid_mask", chunk, chunk + left - 1 + right, dtype="bool"),
        layers.table("attention.attn.softcap"),
        layers.table("attention.attn.relative_position_embedding.inv_timescales", 1, 1, hidden // 2),
    ])  # fmt: skip
