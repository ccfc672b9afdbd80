"""The two ends of a model: its embedding, and after the last layer its norm and what reads it.

Pipeline stages hold their own ends alone, but for some classes that build one of them on every stage.
"""

from __future__ import annotations

from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role, Stage
from kvplan.model.weights.text import Text

# Classes that build embedding, norm and head on every stage; embedding and head; only the one. Source: vLLM 0.33.0,
# model_executor/models.
_WHOLE = frozenset({
    "FalconForCausalLM", "FalconMambaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma4ForCausalLM",
    "GemmaForCausalLM", "GptOssForCausalLM", "GPT2LMHeadModel", "GPTJForCausalLM", "GraniteMoeForCausalLM",
    "GraniteMoeHybridForCausalLM", "GraniteMoeSharedForCausalLM", "HYV3ForCausalLM", "InternLM2ForCausalLM",
    "JambaForCausalLM", "Mamba2ForCausalLM", "MambaForCausalLM", "MiniCPM3ForCausalLM", "MiniCPMForCausalLM",
    "MixtralForCausalLM", "NemotronHForCausalLM", "NemotronHPuzzleForCausalLM", "OlmoHybridForCausalLM",
    "OlmoeForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM", "RWForCausalLM", "Zamba2ForCausalLM",
})  # fmt: skip
_BOTH_TABLES = frozenset({
    "BloomForCausalLM", "ChatGLMModel", "DbrxForCausalLM", "OPTForCausalLM", "OrionForCausalLM", "PhiMoEForCausalLM",
    "PhimoeForCausalLM", "Qwen3NextForCausalLM", "StableLMEpochForCausalLM", "StableLmForCausalLM",
})  # fmt: skip
_EMBEDDING = frozenset({
    "Cohere2ForCausalLM", "Cohere2MoeForCausalLM", "CohereForCausalLM", "Lfm2ForCausalLM", "Lfm2MoeForCausalLM",
    "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM",
})  # fmt: skip


def ends(
    text: Text,
    *,
    embedding: str = "model.embed_tokens",
    norm: str = "model.norm",
    head: str = "lm_head",
    norm_bias: bool = False,
    head_bias: bool = False,
    tied: bool | None = None,
    scored_too: bool = False,
) -> list[Part]:
    """Return the embedding, the final norm and the output head; a tied head is the embedding itself.

    A scoring architecture has a scoring head in its place, or beside it where `scored_too`.
    """
    tied, name = text.tied if tied is None else tied, text.architecture
    generates = scored_too or not scores(name)
    first, last, reader = Stage.ENDS if tied and generates else Stage.FIRST, Stage.LAST, Stage.LAST
    if name in _WHOLE:
        first, last, reader = Stage.EVERY, Stage.EVERY, Stage.EVERY
    elif name in _BOTH_TABLES:
        first, reader = Stage.EVERY, Stage.EVERY
    elif name in _EMBEDDING:
        first = Stage.EVERY
    parts: list[Part] = [
        Scope(stage=first).linear(embedding, text.vocabulary, text.hidden, Role.VOCABULARY, kind="embedding")
    ]
    at = Scope(stage=reader)
    if norm:
        parts += Scope(stage=last).norm(norm, text.hidden, bias=norm_bias)
    if generates and not tied:
        parts.append(at.linear(head, text.vocabulary, text.hidden, Role.VOCABULARY, kind="head"))
    if generates and head_bias:
        parts.append(at.tensor(f"{head}.bias", text.vocabulary, role=Role.VOCABULARY))
    return [*parts, *pooler(text)]


def scores(architecture: str) -> bool:
    """Say whether an architecture has a scoring head in place of a language model's; embedding models keep theirs."""
    return architecture.endswith(("ForSequenceClassification", "ForTokenClassification", "RewardModel"))


def pooler(text: Text) -> list[Part]:
    """Return the classification head that vLLM puts on a decoder: float32, one row a label."""
    if not text.architecture.endswith(("ForSequenceClassification", "ForTokenClassification")):
        return []
    at, count = Scope(stage=Stage.LAST), labels(text)
    parts: list[Part] = [at.tensor("score.weight", count, text.hidden, dtype="float32")]
    if text.architecture.endswith("ForTokenClassification"):
        parts.append(at.tensor("score.bias", count, dtype="float32"))
    return parts


def classifier(text: Text, *, pooled: bool) -> list[Part]:
    """Return an encoder's float32 classifier with a bias, behind a square matrix of its own where it is `pooled`."""
    at, hidden, count = Scope(), text.hidden, labels(text)
    own = {"dtype": "float32"}
    parts: list[Part] = [
        at.tensor("classifier.weight", count, hidden, **own),
        at.tensor("classifier.bias", count, **own),
    ]
    if pooled:
        parts += [at.tensor("pooler.weight", hidden, hidden, **own), at.tensor("pooler.bias", hidden, **own)]
    return parts


def labels(text: Text) -> int:
    """Return the number of labels; two where the config names none, as in Hugging Face's classes."""
    named = text.config.root.raw("id2label")
    if isinstance(named, dict) and named:
        return len(named)
    return text.config.root.maybe_integer("num_labels") or 2
