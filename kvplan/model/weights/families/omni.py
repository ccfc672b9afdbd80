"""Qwen2.5-Omni's and Qwen3-Omni's thinkers: eyes, ears and a language model. The talker is served apart."""

from __future__ import annotations

from kvplan.model.weights.families import weighs
from kvplan.model.weights.families.audio import omni_encoder, whole_encoder
from kvplan.model.weights.families.qwen_vl import deep_tower, gated_tower
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text
from kvplan.model.weights.towers import language_model, section, tower


@weighs("Qwen2_5OmniForConditionalGeneration", "Qwen2_5OmniModel", "Qwen2_5OmniThinkerForConditionalGeneration")
def qwen2_5_omni(text: Text) -> list[Part]:
    """Return the parts of a Qwen2.5-Omni's thinker."""
    audio, at = section(text, "audio_config"), tower("audio_tower")
    out, width, positions = audio.integer("output_dim"), audio.integer("d_model"), audio.integer("max_source_positions")
    return [
        *whole_encoder(audio, last="ln_post", learned=False),
        at.table("positional_embedding.positional_embedding", positions, width),
        at.tensor("audio_bos_eos_token.weight", 2, out),
        at.linear("proj", out, width, Role.TOWER, bias=True, kind="plain"),
        *gated_tower(section(text)),
        *language_model(text, "Qwen2ForCausalLM"),
    ]


@weighs("Qwen3OmniMoeForConditionalGeneration", "Qwen3OmniMoeThinkerForConditionalGeneration")
def qwen3_omni(text: Text) -> list[Part]:
    """Return the parts of a Qwen3-Omni's thinker."""
    return [
        *omni_encoder(section(text, "audio_config"), tower("audio_tower")),
        *deep_tower(section(text)),
        *language_model(text, "Qwen3MoeForCausalLM"),
    ]
