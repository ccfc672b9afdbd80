"""Gated delta nets beside attention: Qwen3-Next, Qwen3.5, OLMo's hybrid."""

from __future__ import annotations

from kvplan.model.fields import Fields
from kvplan.model.spec import GatedDeltaNet
from kvplan.model.weights.blocks import attention, gated, rope
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.families.qwen_moe import qwen_experts
from kvplan.model.weights.mixers import attending, gated_delta, mixer_layers, needed
from kvplan.model.weights.schemes.integers import PACKING
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text


@weighs("Qwen3NextForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM")
def qwen3_next(text: Text) -> list[Part]:
    """Return the parts of a Qwen3-Next or Qwen3.5: gated delta nets, and attention whose output has a gate."""
    hidden, config, shape = text.hidden, text.config, text.shape
    deltas, mixer = mixer_layers(text, GatedDeltaNet)
    attends, dim = text.at(layers=attending(text)), shape.head_dim
    gate = text.flag("attn_output_gate", default=True)
    bias = text.flag("attention_bias", "qkv_bias")
    count = config.maybe_integer("num_experts", low=0) or 0
    inputs = {} if text.architecture == "Qwen3NextForCausalLM" else {
        "qkv": "in_proj_qkv", "z": "in_proj_z", "b": "in_proj_b", "a": "in_proj_a",
    }  # fmt: skip
    whole = bool(inputs) and _packs(text.config)
    return [
        *ends(text),
        *(
            gated_delta(text.at(layers=deltas).under("linear_attn"), hidden, mixer, whole=whole, **inputs)
            if mixer
            else []
        ),
        *attention(attends, text, bias=bias, gated_output=gate),
        *attends.norms(dim, "self_attn.q_norm", "self_attn.k_norm"),
        *(qwen_experts(text.at(), text, count) if count else []),
        *(gated(text.at(), hidden, text.intermediate) if not count else []),
        *text.at().norms(hidden, *TWO_NORMS),
        *rope(text, partial=0.25, copies=1),
    ]


def _packs(config: Fields) -> bool:
    """Say whether the method is one of Marlin's, whose tiles Qwen3.5's b and a would be too few rows for when split.

    Source: vLLM 0.33.0, maybe_disable_tp of layers/mamba/gdn; so it is for modules that the method skips.
    """
    found = (place.maybe_section("quantization_config", "compression_config") for place in (config.root, config))
    section = next((section for section in found if section is not None), None)
    return section is not None and (section.maybe_text("quant_method") or "").lower() in PACKING


@weighs("OlmoHybridForCausalLM")
def olmo_hybrid(text: Text) -> list[Part]:
    """Return the parts of an OLMo hybrid: gated delta nets with norms before, attention with norms after each half."""
    hidden, shape = text.hidden, text.shape
    deltas, mixer = mixer_layers(text, GatedDeltaNet)
    found = needed(text.config, mixer, "linear_key_head_dim")
    attends = text.at(layers=attending(text))
    inside = text.at(layers=deltas).under("linear_attn")
    keys, values = found.k_heads * found.k_dim, found.v_heads * found.v_dim
    inputs = (("q_proj", keys), ("k_proj", keys), ("v_proj", values), ("g_proj", values))
    return [
        *ends(text),
        *(inside.linear(name, rows, hidden, leads=name == "q_proj") for name, rows in inputs),
        *(inside.linear(name, found.v_heads, hidden) for name in ("a_proj", "b_proj")),
        inside.linear("o_proj", hidden, values, Role.ROW),
        *(inside.tensor(name, found.v_heads, role=Role.COLUMN) for name in ("dt_bias", "A_log")),
        inside.tensor("conv1d.weight", 2 * keys + values, 1, found.kernel, role=Role.COLUMN),
        *inside.norm("o_norm", found.v_dim),
        *text.at(layers=deltas).norm("input_layernorm", hidden),
        *attention(attends, text),
        *attends.norm("self_attn.q_norm", shape.heads * shape.head_dim),
        *attends.norm("self_attn.k_norm", shape.kv_heads * shape.head_dim),
        *attends.norm("post_feedforward_layernorm", hidden),
        *gated(text.at(), hidden, text.intermediate),
        *text.at().norm("post_attention_layernorm", hidden),
        *rope(text),
    ]
