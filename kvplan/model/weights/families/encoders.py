"""Encoders: BERT, RoBERTa, ModernBERT and their classifiers. Every embedding, of positions and types too, is split."""

from __future__ import annotations

from kvplan.model.weights.blocks import attention, fused, gated, two_layers
from kvplan.model.weights.ends import classifier
from kvplan.model.weights.families import weighs
from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text

_BERT_QKVO = (
    "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
)  # fmt: skip


@weighs("BertModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification")
@weighs("RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaForTokenClassification")
@weighs("XLMRobertaModel", "XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification")
@weighs("XLMRobertaForTokenClassification", "BertSpladeSparseEmbeddingModel")
def bert(text: Text) -> list[Part]:
    """Return the parts of a BERT or RoBERTa; heads are float32, but that of a masked language model."""
    hidden, config = text.hidden, text.config
    at, first = text.at("encoder.layer.{}"), Scope("embeddings.")
    split = {"role": Role.VOCABULARY}
    positions = config.integer("max_position_embeddings")
    return [
        first.tensor("word_embeddings.weight", text.vocabulary, hidden, **split),
        first.tensor("position_embeddings.weight", positions, hidden, **split),
        first.tensor("token_type_embeddings.weight", config.integer("type_vocab_size"), hidden, **split),
        first.table("position_ids", 1, positions, dtype="int64"),
        *first.norm("LayerNorm", hidden, bias=True),
        *attention(at, text, bias=True, out_bias=True, names=_BERT_QKVO),
        *two_layers(at, hidden, text.intermediate, bias=True, names=("intermediate.dense", "output.dense")),
        *at.norms(hidden, "attention.output.LayerNorm", "output.LayerNorm", bias=True),
        *_head(text),
    ]


def _head(text: Text) -> list[Part]:
    hidden, at, name = text.hidden, Scope(), text.architecture
    if name in ("BertForMaskedLM", "BertSpladeSparseEmbeddingModel"):
        return [
            at.tensor("mlm_head.dense.weight", hidden, hidden),
            at.tensor("mlm_head.dense.bias", hidden),
            *at.norm("mlm_head.layer_norm", hidden, bias=True),
            at.tensor("mlm_head.decoder.weight", text.vocabulary, hidden),
            at.tensor("mlm_head.decoder.bias", text.vocabulary),
        ]
    if name.endswith("Classification"):
        return classifier(text, pooled=name.endswith("ForSequenceClassification"))
    return []


@weighs("ModernBertModel", "ModernBertForMaskedLM", "ModernBertForSequenceClassification")
@weighs("ModernBertForTokenClassification")
def modern_bert(text: Text) -> list[Part]:
    """Return the parts of a ModernBERT: gated layers, rotary positions, no norm before the first layer's attention."""
    hidden, at, width, everywhere = text.hidden, text.at("layers.{}"), text.intermediate, Scope()
    bias = text.flag("norm_bias")
    parts = [
        everywhere.tensor("embeddings.tok_embeddings.weight", text.vocabulary, hidden, role=Role.VOCABULARY),
        *everywhere.norms(hidden, "embeddings.norm", "final_norm", bias=bias),
        *attention(
            at, text, bias=text.flag("attention_bias"), out_bias=text.flag("attention_bias"),
            names=fused("attn.Wqkv", "attn.Wo"),
        ),
        *gated(at, hidden, width, bias=text.flag("mlp_bias"), names=("mlp.Wi", "mlp.Wi", "mlp.Wo")),
        *at.norm("mlp_norm", hidden, bias=bias),
        *text.at("layers.{}", text.layers[1:]).norm("attn_norm", hidden, bias=bias),
        *(2 * rope_table(text.config, text.shape.head_dim, scaled=False)),
    ]  # fmt: skip
    name = text.architecture
    if name.endswith("ForSequenceClassification"):
        parts += [everywhere.tensor("head.dense.weight", hidden, hidden, dtype="float32")]
        parts += [everywhere.tensor("head.norm.weight", hidden, dtype="float32")]
    if name.endswith("ForTokenClassification"):
        parts += [everywhere.tensor("head.dense.weight", hidden, hidden), everywhere.tensor("head.norm.weight", hidden)]
    return parts + (classifier(text, pooled=False) if name.endswith("Classification") else [])
