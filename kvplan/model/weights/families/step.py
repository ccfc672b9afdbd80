"""StepFun's Step 3 and Step 3.5."""

from __future__ import annotations

from kvplan.model.spec import Full, Window
from kvplan.model.weights.blocks import attention, experts, gated, kv_scales, rope, router
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.sparse import head_norms, rest
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text

_POSITIONS = 65536  # the class's default of max_position_embedding, which configs do not spell so
_SHARED = ("share_expert.gate_proj", "share_expert.up_proj", "share_expert.down_proj")


def _sparse(text: Text) -> list[int]:
    """Return the layers with experts: those that moe_layers_enum lists ("4,5,6"), else all but the first."""
    types = text.config.maybe_texts("mlp_layer_types")
    if types is not None:
        return [i for i in text.layers if i < len(types) and types[i] == "sparse"]
    listed = text.config.maybe_text("moe_layers_enum")
    if listed is None:
        return list(text.layers[1:])
    wanted = {part.strip() for part in listed.split(",")}
    return [i for i in text.layers if str(i) in wanted]


@weighs("Step3TextForCausalLM")
def step3(text: Text) -> list[Part]:
    """Return the parts of a Step 3: one KV head, and queries that are projected through a narrow one."""
    at, hidden, config, shape = text.at(), text.hidden, text.config, text.shape
    rank, dim, moe = config.integer("share_q_dim"), shape.head_dim, _sparse(text)
    sparse, dense = text.at(layers=moe), rest(text, moe)
    count, whole = config.integer("moe_num_experts"), Role.REPLICATED
    return [
        *ends(text),
        at.linear("self_attn.q_proj", rank, hidden, whole),
        at.linear("self_attn.k_proj", dim, hidden, whole, leads=False),
        at.linear("self_attn.v_proj", dim, hidden, whole, leads=False),
        *at.norm("self_attn.inter_norm", rank),
        at.linear("self_attn.wq", shape.heads * dim, rank),
        at.linear("self_attn.o_proj", hidden, shape.heads * dim, Role.ROW),
        kv_scales(at),
        *gated(text.at(layers=dense), hidden, text.intermediate),
        *router(sparse, count, hidden, name="moe.gate"),
        *experts(sparse, count, hidden, config.integer("moe_intermediate_size"), within="moe"),
        *gated(sparse, hidden, config.integer("share_expert_dim"), names=_SHARED),
        *at.norms(hidden, *TWO_NORMS),
        *rope(text, positions=config.integer("max_position_embedding", default=_POSITIONS)),
    ]


@weighs("Step3p5ForCausalLM")
def step3p5(text: Text) -> list[Part]:
    """Return the parts of a Step 3.5: sliding layers with heads of their own, a gate on each head, float32 routers."""
    hidden, config = text.hidden, text.config
    moe, count = _sparse(text), config.integer("moe_num_experts")
    sparse, dense = text.at(layers=moe), rest(text, moe)
    sliding = [i for i in text.layers if isinstance(text.shape.layers[i][0], Window)]
    parts = [*ends(text), *text.at().norms(hidden, *TWO_NORMS)]
    for layers, heads in ((rest(text, sliding), text.shape.heads), (sliding, _sliding_heads(text))):
        cache = text.shape.layers[layers[0]][0] if layers else None
        if isinstance(cache, Full | Window):
            at = text.at(layers=layers)
            parts += attention(at, text, heads=(heads, cache.kv_heads), bias=text.flag("attention_bias"))
            parts += head_norms(at, text)
            parts += [at.linear("self_attn.g_proj", heads, hidden)] if text.flag("use_head_wise_attn_gate") else []
            parts += _table(text, layers[0])
    return [
        *parts,
        *gated(text.at(layers=dense), hidden, text.intermediate),
        *router(sparse, count, hidden, name="moe.gate", dtype="float32", correction="moe.router_bias"),
        *experts(sparse, count, hidden, config.integer("moe_intermediate_size"), within="moe"),
        *gated(sparse, hidden, config.integer("share_expert_dim"), names=_SHARED),
    ]


def _sliding_heads(text: Text) -> int:
    """Return the query heads of the sliding layers."""
    own = text.config.maybe_integer("num_sliding_attention_heads")
    other = text.config.maybe_section("attention_other_setting")
    return own or (other.maybe_integer("num_attention_heads") if other is not None else None) or text.shape.heads


def _table(text: Text, layer: int) -> list[Part]:
    """Return the rope table of the layers like this one: each kind may rotate another share of a head."""
    shares, types = text.config.raw("partial_rotary_factors"), text.config.maybe_texts("layer_types")
    given = shares[layer] if isinstance(shares, list) and layer < len(shares) else None
    partial = float(given) if isinstance(given, int | float) else None
    kind = types[layer] if types is not None and layer < len(types) else None
    scaled = kind is None or kind in (text.config.maybe_texts("yarn_only_types") or [kind])
    return rope_table(text.config, text.shape.head_dim, layer_type=kind, partial=partial, scaled=scaled)
