"""Decoders whose checkpoints use names of their own: InternLM 2, MiniCPM 1 to 3."""

from __future__ import annotations

from kvplan.model.weights.blocks import attention, fused, gated, rope
from kvplan.model.weights.dense import TWO_NORMS, dense
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.latent import latent_attention
from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role, Stage
from kvplan.model.weights.text import Text


@weighs("InternLM2ForCausalLM", "InternLM2ForRewardModel")
def internlm2(text: Text) -> list[Part]:
    """Return the parts of an InternLM 2; its reward model has a float32 head that is split by its inputs."""
    at, hidden, bias = text.at(), text.hidden, text.flag("bias")
    reward = text.architecture == "InternLM2ForRewardModel"
    names = fused("attention.wqkv", "attention.wo")
    parts = [
        *ends(text, embedding="model.tok_embeddings", head="output"),
        *attention(at, text, bias=bias, out_bias=bias, names=names),
        *gated(at, hidden, text.intermediate, names=("feed_forward.w1", "feed_forward.w3", "feed_forward.w2")),
        *at.norms(hidden, "attention_norm", "ffn_norm"),
        *rope(text),
    ]
    if reward:
        head = Scope(stage=Stage.LAST).tensor("v_head.weight", 1, hidden, role=Role.ROW, axis=1, dtype="float32")
        return [*parts, head]
    return parts


@weighs("MiniCPMForCausalLM")
def minicpm(text: Text) -> list[Part]:
    """Return the parts of a MiniCPM 1 or 2, dense or with experts that the engine keeps unquantised."""
    count = text.config.maybe_integer("num_experts", low=0) or 0
    tied = text.flag("tie_word_embeddings", default=True)
    if not count:
        return dense(text, tied=tied)
    at, hidden, width = text.at(), text.hidden, text.intermediate
    inside = at.under("mlp.experts.{}").copies(count)
    return [
        *ends(text, tied=tied),
        *attention(at, text),
        at.tensor("mlp.gate.weight", count, hidden),
        inside.tensor("w1.weight", width, hidden, role=Role.COLUMN),
        inside.tensor("w3.weight", width, hidden, role=Role.COLUMN),
        inside.tensor("w2.weight", hidden, width, role=Role.ROW, axis=1),
        *at.norms(hidden, *TWO_NORMS),
        *rope(text),
    ]


@weighs("MiniCPM3ForCausalLM")
def minicpm3(text: Text) -> list[Part]:
    """Return the parts of a MiniCPM 3: latent projections, whose expanded keys and values are cached."""
    at, hidden = text.at(), text.hidden
    return [
        *ends(text, tied=text.flag("tie_word_embeddings", default=True)),
        *latent_attention(at, text, scales="attn"),
        *gated(at, hidden, text.intermediate),
        *at.norms(hidden, *TWO_NORMS),
        *rope_table(text.config, text.config.integer("qk_rope_head_dim")),
    ]
