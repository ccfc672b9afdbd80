"""Gemma 1 to 3, EmbeddingGemma and VaultGemma: tied embeddings, norms around each half of a layer."""

from __future__ import annotations

from kvplan.model.weights.dense import FOUR_NORMS, dense, frequencies
from kvplan.model.weights.families import weighs
from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import MODEL, Part
from kvplan.model.weights.text import Text

_NORMALIZER = Scope().table("model.normalizer", dtype=MODEL)


@weighs("GemmaForCausalLM")
def gemma(text: Text) -> list[Part]:
    """Return the parts of a Gemma."""
    return [*dense(text, tied=True), _NORMALIZER]


@weighs("Gemma2ForCausalLM", "Gemma2Model")
def gemma2(text: Text) -> list[Part]:
    """Return the parts of a Gemma 2: four norms a layer."""
    return [*dense(text, norms=FOUR_NORMS, tied=True), _NORMALIZER]


@weighs("VaultGemmaForCausalLM")
def vault_gemma(text: Text) -> list[Part]:
    """Return the parts of a VaultGemma, which runs through vLLM's Transformers backend."""
    norms = ("input_layernorm", "pre_feedforward_layernorm")
    return [*dense(text, norms=norms, tied=True, tables=frequencies(text)), _NORMALIZER]


@weighs("Gemma3ForCausalLM", "Gemma3TextModel")
def gemma3(text: Text) -> list[Part]:
    """Return the parts of a Gemma 3: local layers have a rope table of their own, which is not scaled."""
    tables = [
        *rope_table(text.config, text.shape.head_dim, layer_type="full_attention"),
        *rope_table(text.config, text.shape.head_dim, layer_type="sliding_attention", scaled=False),
    ]
    return [*dense(text, norms=FOUR_NORMS, head_norms=True, tied=True, tables=tables), _NORMALIZER]
