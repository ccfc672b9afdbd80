"""Models whose layers differ from each other in heads or widths: MiMo-V2, Nemotron-NAS."""

from __future__ import annotations

from collections import defaultdict

from kvplan.model.fields import Fields
from kvplan.model.spec import Full, Window
from kvplan.model.weights.blocks import attention, experts, gated, rope, router
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.sparse import rest
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text


@weighs("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM")
def mimo_v2(text: Text) -> list[Part]:
    """Return the parts of a MiMo-V2: sliding layers have heads of their own, sinks, and another rotary base."""
    hidden, config = text.hidden, text.config
    sliding = [i for i in text.layers if isinstance(text.shape.layers[i][0], Window)]
    full = rest(text, sliding)
    freq = config.maybe_integers("moe_layer_freq")
    moe = [i for i in text.layers if freq is not None and i < len(freq) and freq[i]]
    count, dense = config.maybe_integer("n_routed_experts", low=0) or 0, rest(text, moe)
    parts = [*ends(text), *text.at().norms(hidden, *TWO_NORMS)]
    bias = text.flag("attention_bias")
    sliding_heads = config.integer("swa_num_attention_heads", "num_attention_heads")
    for layers, heads, sinks in (
        (full, config.integer("num_attention_heads"), text.flag("add_full_attention_sink_bias")),
        (sliding, sliding_heads, text.flag("add_swa_attention_sink_bias")),
    ):
        cache = text.shape.layers[layers[0]][0] if layers else None
        if not isinstance(cache, Full | Window):
            continue
        at = text.at(layers=layers)
        parts += attention(at, text, bias=bias, heads=(heads, cache.kv_heads), dims=(cache.head_dim, cache.head_dim_v))
        parts += [at.tensor("self_attn.attention_sink_bias", heads, role=Role.COLUMN)] if sinks else []
        parts += rope_table(config, cache.head_dim, scaled=False)
    if moe:
        at = text.at(layers=moe)
        parts += router(at, count, hidden, dtype="float32", correction="mlp.gate.e_score_correction_bias")
        parts += experts(at, count, hidden, config.integer("moe_intermediate_size"))
    return parts + gated(text.at(layers=dense), hidden, text.intermediate)


# -- Nemotron-NAS -----------------------------------------------------------------------------------------------------


@weighs("DeciLMForCausalLM")
def nas(text: Text) -> list[Part]:
    """Return the parts of a Llama-Nemotron, whose search gave each layer its own KV heads and feed-forward width."""
    hidden, config = text.hidden, text.config
    bias = text.flag("attention_bias")
    parts = [*ends(text), *rope(text)]
    by_heads: defaultdict[int, list[int]] = defaultdict(list)
    for layer in text.layers:
        cache = next(iter(text.shape.layers[layer]), None)
        if isinstance(cache, Full):
            by_heads[cache.kv_heads].append(layer)
    for kv_heads, layers in by_heads.items():
        at = text.at(layers=layers)
        parts += attention(at, text, heads=(text.shape.heads, kv_heads), bias=bias, out_bias=bias)
        parts += at.norm("input_layernorm", hidden)
    by_width: defaultdict[int, list[int]] = defaultdict(list)
    for layer in text.layers:
        width = _width(config, layer, hidden, text)
        if width:
            by_width[width].append(layer)
    for width, layers in by_width.items():
        parts += gated(text.at(layers=layers), hidden, width, bias=text.flag("mlp_bias"))
        parts += text.at(layers=layers).norm("post_attention_layernorm", hidden)
    return parts


def _width(config: Fields, layer: int, hidden: int, text: Text) -> int:
    """Return a layer's feed-forward width: two thirds of ffn_mult x hidden, doubled, in multiples of 256; 0: none."""
    blocks = config.raw("block_configs")
    if not isinstance(blocks, list):
        return text.intermediate
    block = blocks[layer]
    forward = block.get("ffn") if isinstance(block, dict) else None
    if not isinstance(forward, dict):
        raise config.bad(f"block_configs[{layer}].ffn", "an object", forward)
    section = Fields(forward, where=config.path(f"block_configs[{layer}].ffn"), root=config.root)
    if section.flag("no_op"):
        return 0
    multiple = section.maybe_number("ffn_mult")
    if multiple is None:
        return section.integer("intermediate_size")
    width = int(2 * multiple * hidden / 3)
    return 256 * -(-width // 256)
