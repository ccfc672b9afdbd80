"""Zamba2: Mamba-2 layers; before some of them runs one of a few shared blocks, with adapters of its own each time."""

from __future__ import annotations

from kvplan.model.spec import Mamba2
from kvplan.model.weights.blocks import attention, gated, kv_scales, rope
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.mixers import attending, mamba2, mixer_layers, needed
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text


@weighs("Zamba2ForCausalLM")
def zamba2(text: Text) -> list[Part]:
    """Return the parts of a Zamba2."""
    config, hidden, at = text.config, text.hidden, text.at()
    _, mixer = mixer_layers(text, Mamba2)
    bias, hybrid = text.flag("add_bias_linear"), text.at(layers=attending(text))
    return [
        *ends(text, norm="model.final_layernorm", tied=True),
        *mamba2(at.under("mamba"), hidden, needed(config, mixer, "mamba_d_state"), bias=bias),
        *at.norm("input_layernorm", hidden),
        *_shared_block(text, bias=bias),
        *_adapters(hybrid, text),
        hybrid.linear("linear", hidden, hidden, Role.REPLICATED),
        kv_scales(hybrid),
        *(rope(text) if text.flag("use_mem_rope") else []),
    ]


def _shared_block(text: Text, *, bias: bool) -> list[Part]:
    """Return the blocks that layers share; they see the hidden state beside the embeddings."""
    hidden, wide = text.hidden, text.shape.heads * text.shape.head_dim
    at = Scope("model.blocks.{}.").copies(text.config.integer("num_mem_blocks"))
    names = ("feed_forward.gate_up_proj", "feed_forward.gate_up_proj", "feed_forward.down_proj")
    return [
        *attention(at, text, hidden=wide)[:3],
        at.linear("self_attn.o_proj", hidden, wide, Role.ROW),
        *gated(at, hidden, text.intermediate, bias=bias, names=names),
        *at.norm("input_layernorm", 2 * hidden),
        *at.norm("pre_ff_layernorm", hidden),
    ]


def _adapters(at: Scope, text: Text) -> list[Part]:
    """Return the low-rank adapters of each use of a block."""
    rank, wide = text.config.integer("adapter_rank"), text.shape.heads * text.shape.head_dim
    pairs = [("gate_up_proj_adapter", text.hidden, 2 * text.intermediate)]
    if text.flag("use_shared_attention_adapter"):
        pairs += [(f"linear_{name}_adapter", wide, wide) for name in "qkv"]
    return [
        part
        for name, inputs, outputs in pairs
        for part in (at.linear(f"{name}.0", rank, inputs), at.linear(f"{name}.1", outputs, rank))
    ]
