"""GPT-2 and its kin: one matrix for query, key and value, feed-forward layers without a gate, biases throughout."""

from __future__ import annotations

from kvplan.model.weights.blocks import attention, fused, rope, two_layers
from kvplan.model.weights.dense import dense, frequencies
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role, Stage
from kvplan.model.weights.text import Text

_EVERY = Scope()


@weighs("GPT2LMHeadModel", "GPT2ForSequenceClassification")
def gpt2(text: Text) -> list[Part]:
    """Return the parts of a GPT-2: learned positions, tied embeddings."""
    at, hidden = text.at("transformer.h.{}"), text.hidden
    return [
        *ends(text, embedding="transformer.wte", norm="transformer.ln_f", norm_bias=True, tied=True),
        Scope(stage=Stage.FIRST).tensor("transformer.wpe.weight", text.config.integer("n_positions"), hidden),
        *_gpt2_layer(text, at, hidden),
    ]


def _gpt2_layer(text: Text, at: Scope, hidden: int) -> list[Part]:
    width = text.config.maybe_integer("n_inner") or 4 * hidden
    return [
        *attention(at, text, bias=True, out_bias=True, names=fused("attn.c_attn", "attn.c_proj")),
        *two_layers(at, hidden, width, bias=True, names=("mlp.c_fc", "mlp.c_proj")),
        *at.norms(hidden, "ln_1", "ln_2", bias=True),
    ]


@weighs("GPTBigCodeForCausalLM")
def bigcode(text: Text) -> list[Part]:
    """Return the parts of a GPTBigCode, of which vLLM's Transformers backend splits attention and embeddings only."""
    at, hidden = text.at("transformer.h.{}"), text.hidden
    positions = text.config.integer("n_positions")
    width = text.config.maybe_integer("n_inner") or 4 * hidden
    return [
        *ends(text, embedding="transformer.wte", norm="transformer.ln_f", norm_bias=True, tied=True),
        _EVERY.tensor("transformer.wpe.weight", positions, hidden),
        *attention(at, text, bias=True, out_bias=True, names=fused("attn.c_attn", "attn.c_proj")),
        at.linear("mlp.c_fc", width, hidden, Role.TOWER, bias=True),
        at.linear("mlp.c_proj", hidden, width, Role.TOWER, bias=True),
        *at.norms(hidden, "ln_1", "ln_2", bias=True),
        _EVERY.table("transformer.bias", positions, positions, dtype="bool"),
    ]


@weighs("GPTJForCausalLM")
def gptj(text: Text) -> list[Part]:
    """Return the parts of a GPT-J: no biases in attention, one norm a layer, a head with a bias."""
    at, hidden = text.at("transformer.h.{}"), text.hidden
    names = ("attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.out_proj")
    width = text.config.maybe_integer("n_inner") or 4 * hidden
    return [
        *ends(text, embedding="transformer.wte", norm="transformer.ln_f", norm_bias=True, head_bias=True, tied=False),
        *attention(at, text, names=names),
        *two_layers(at, hidden, width, bias=True, names=("mlp.fc_in", "mlp.fc_out")),
        *at.norm("ln_1", hidden, bias=True),
        *rope(text),
    ]


@weighs("GPTNeoXForCausalLM")
def neox(text: Text) -> list[Part]:
    """Return the parts of a GPT-NeoX or Pythia, which run through vLLM's Transformers backend."""
    at, hidden = text.at("gpt_neox.layers.{}"), text.hidden
    bias = text.flag("attention_bias", default=True)
    return [
        *ends(text, embedding="gpt_neox.embed_in", norm="gpt_neox.final_layer_norm", head="embed_out", norm_bias=True),
        *attention(at, text, bias=bias, out_bias=bias, names=fused("attention.query_key_value", "attention.dense")),
        *two_layers(at, hidden, text.intermediate, bias=True, names=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h")),
        *at.norms(hidden, "input_layernorm", "post_attention_layernorm", bias=True),
        *frequencies(text, partial=0.25),
    ]


@weighs("OPTForCausalLM")
def opt(text: Text) -> list[Part]:
    """Return the parts of an OPT; small ones embed in another width than they work in."""
    hidden, config = text.hidden, text.config
    at, first, last = text.at("model.decoder.layers.{}"), Scope(stage=Stage.FIRST), Scope(stage=Stage.LAST)
    width = config.maybe_integer("word_embed_proj_dim") or hidden
    bias = text.flag("enable_bias", default=True)
    names = tuple(f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "out_proj"))
    tied = text.flag("tie_word_embeddings", default=True)
    stage = Scope(stage=Stage.ENDS if tied else Stage.FIRST)
    positions = config.integer("max_position_embeddings") + 2  # two rows before the first position
    parts: list[Part] = [
        stage.linear("model.decoder.embed_tokens", text.vocabulary, width, Role.VOCABULARY, kind="embedding"),
        first.tensor("model.decoder.embed_positions.weight", positions, hidden),
        *attention(at, text, bias=bias, out_bias=bias, names=(names[0], names[1], names[2], names[3])),
        *two_layers(at, hidden, config.integer("ffn_dim"), bias=bias, names=("fc1", "fc2")),
        *at.norms(hidden, "self_attn_layer_norm", "final_layer_norm", bias=True),
    ]
    if not tied:
        parts.append(last.linear("lm_head", text.vocabulary, width, Role.VOCABULARY, kind="head"))
    if width != hidden:
        parts.append(first.tensor("model.decoder.project_in.weight", hidden, width))
        parts.append(last.tensor("model.decoder.project_out.weight", width, hidden))
    if text.flag("do_layer_norm_before", default=True) and not text.flag("_remove_final_layer_norm"):
        parts += last.norm("model.decoder.final_layer_norm", hidden, bias=True)
    return parts


@weighs("BloomForCausalLM")
def bloom(text: Text) -> list[Part]:
    """Return the parts of a BLOOM: positions by a bias of each head (ALiBi), tied embeddings."""
    at, hidden = text.at("transformer.h.{}"), text.hidden
    names = fused("self_attention.query_key_value", "self_attention.dense")
    return [
        *ends(text, embedding="transformer.word_embeddings", norm="transformer.ln_f", norm_bias=True, tied=True),
        *Scope(stage=Stage.FIRST).norm("transformer.word_embeddings_layernorm", hidden, bias=True),
        *attention(at, text, bias=True, out_bias=True, names=names),
        *two_layers(at, hidden, 4 * hidden, bias=True, names=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h")),
        *at.norms(hidden, "input_layernorm", "post_attention_layernorm", bias=True),
    ]


@weighs("FalconForCausalLM", "RWForCausalLM")
def falcon(text: Text) -> list[Part]:
    """Return the parts of a Falcon: one norm a layer where both halves run side by side, else two."""
    at, hidden = text.at("transformer.h.{}"), text.hidden
    bias = text.flag("bias")
    norms = _falcon_norms(text)
    width = text.config.maybe_integer("ffn_hidden_size") or 4 * hidden
    names = fused("self_attention.query_key_value", "self_attention.dense")
    parts = [
        *ends(text, embedding="transformer.word_embeddings", norm="transformer.ln_f", norm_bias=True),
        *attention(at, text, bias=bias, out_bias=bias, names=names),
        *two_layers(at, hidden, width, bias=bias, names=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h")),
        *at.norms(hidden, *norms, bias=True),
    ]
    return parts if text.flag("alibi") else [*parts, *rope(text)]


def _falcon_norms(text: Text) -> tuple[str, ...]:
    """Return the norms of a layer: one where both halves run side by side, unless each has its own."""
    if text.flag("new_decoder_architecture"):
        one = text.config.maybe_integer("num_ln_in_parallel_attn") == 1
        return ("input_layernorm",) if one else ("ln_attn", "ln_mlp")
    one = text.flag("parallel_attn", default=True)
    return ("input_layernorm",) if one else ("input_layernorm", "post_attention_layernorm")


@weighs("NemotronForCausalLM")
def nemotron(text: Text) -> list[Part]:
    """Return the parts of a Nemotron 3 or 4: norms with biases, a feed-forward layer without a gate."""
    bias = text.flag("attention_bias")
    return dense(
        text,
        norm_bias=True,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=text.flag("mlp_bias"),
        feed_forward=("mlp.up_proj", "mlp.down_proj"),
        tables=rope(text, partial=0.5),
    )


@weighs("PersimmonForCausalLM")
def persimmon(text: Text) -> list[Part]:
    """Return the parts of a Persimmon: biases throughout, query and key normalised head by head."""
    at, dim = text.at(), text.shape.head_dim
    parts = dense(
        text,
        norm_bias=True,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        projections=fused("self_attn.query_key_value", "self_attn.dense"),
        feed_forward=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
        tables=rope(text, partial=0.5),
    )
    if text.flag("qk_layernorm", default=True):
        parts += at.norms(dim, "self_attn.q_layernorm", "self_attn.k_layernorm", bias=True)
    return parts
