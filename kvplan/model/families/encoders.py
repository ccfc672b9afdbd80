"""Encoder-only models: they embed or classify a whole text at once and keep no KV cache."""

from __future__ import annotations

from kvplan.model.families import reads
from kvplan.model.families._attention import GroupedQuery, divided_hidden, encoder_only, grouped_query
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape


@reads(
    *("BertModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification"),
    *("BertSpladeSparseEmbeddingModel", "HF_ColBERT"),
    model_types=("bert",),
)
@reads(
    *("RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaForTokenClassification"),
    model_types=("roberta",),
)
@reads(
    *("XLMRobertaModel", "XLMRobertaForSequenceClassification", "XLMRobertaForTokenClassification"),
    *("XLMRobertaForMaskedLM", "BgeM3EmbeddingModel", "ColBERTJinaRobertaModel"),
    model_types=("xlm-roberta",),
)
@reads(
    *("ModernBertModel", "ModernBertForMaskedLM", "ModernBertForSequenceClassification"),
    *("ModernBertForTokenClassification", "ColBERTModernBertModel"),
    model_types=("modernbert",),
)
@reads("GteModel", "GteNewModel", "GteNewForSequenceClassification", model_types=("gte", "new"))
@reads("ErnieModel", "ErnieForSequenceClassification", "ErnieForTokenClassification", model_types=("ernie",))
def read(config: Fields) -> Shape:
    """Return the shape of a BERT-like encoder."""
    heads = config.integer("num_attention_heads")
    head_dim = divided_hidden(config, heads)
    return encoder_only(GroupedQuery(heads, heads, head_dim, head_dim), config.layers())


@reads("NomicBertModel", model_types=("nomic_bert",))
def read_nomic(config: Fields) -> Shape:
    """Return the shape of a Nomic BERT, which uses GPT-2's names."""
    heads = config.integer("n_head", "num_attention_heads")
    head_dim = divided_hidden(config, heads)
    return encoder_only(GroupedQuery(heads, heads, head_dim, head_dim), config.layers("n_layer", "num_hidden_layers"))


@reads("EuroBertModel", "EuroBertForMaskedLM", model_types=("eurobert",))
@reads("OpenAIPrivacyFilterForTokenClassification", model_types=("openai_privacy_filter",))
def read_grouped(config: Fields) -> Shape:
    """Return the shape of an encoder with grouped-query attention."""
    return encoder_only(grouped_query(config), config.layers())
