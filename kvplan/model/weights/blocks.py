"""The blocks that language models are built of: attention, feed-forward layers, experts.

Names follow the checkpoints of the Hugging Face layout, where a matrix that the engine merges with its neighbours
(query, key and value; gate and up) is stored by itself.
"""

from __future__ import annotations

from kvplan.model.weights.rope import rope_table
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import MODEL, Part, Role
from kvplan.model.weights.text import Text

# -- attention --------------------------------------------------------------------------------------------------------

QKVO = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")


def attention(
    at: Scope,
    text: Text,
    *,
    bias: bool = False,
    out_bias: bool = False,
    heads: tuple[int, int] | None = None,
    dims: tuple[int, int] | None = None,
    names: tuple[str, str, str, str] = QKVO,
    hidden: int | None = None,
    gated_output: bool = False,
) -> list[Part]:
    """Return query, key, value and output projections of grouped-query attention, and the engine's four KV scales.

    `heads` (query, KV) and `dims` (key, value) stand where a layer differs from the model-wide figures.
    `gated_output`: the query projection also gives a gate of the output's size.
    """
    queries, keys = heads or (text.shape.heads, text.shape.kv_heads)
    dim, dim_v = dims or (text.shape.head_dim, text.shape.head_dim)
    width = hidden or text.hidden
    q, k, v, o = names
    return [
        at.linear(q, (2 if gated_output else 1) * queries * dim, width, bias=bias),
        at.linear(k, keys * dim, width, Role.KV, heads=keys, bias=bias, leads=False),
        at.linear(v, keys * dim_v, width, Role.KV, heads=keys, bias=bias, leads=False),
        at.linear(o, width, queries * dim_v, Role.ROW, bias=out_bias),
        kv_scales(at),
    ]


def fused(name: str, out: str) -> tuple[str, str, str, str]:
    """Return the names of an attention whose checkpoint stores query, key and value as one matrix."""
    return (name, name, name, out)


def kv_scales(at: Scope, name: str = "attn") -> Part:
    """Return the four float32 scales that every attention layer of the engine keeps."""
    return at.table(f"self_attn.{name}._scales", 4)


def rope(
    text: Text,
    *,
    partial: float | None = None,
    positions: int | None = None,
    dtype: str = MODEL,
    copies: int | None = None,
) -> list[Part]:
    """Return the table of the rotary embedding that all layers share."""
    dim = text.shape.head_dim
    return rope_table(text.config, dim, partial=partial, positions=positions, dtype=dtype, copies=copies)


# -- feed-forward -----------------------------------------------------------------------------------------------------

GATED = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


def gated(at: Scope, hidden: int, width: int, *, bias: bool = False, names: tuple[str, str, str] = GATED) -> list[Part]:
    """Return a gated feed-forward layer: gate and up, then down."""
    gate, up, down = names
    return [
        at.linear(gate, width, hidden, bias=bias),
        at.linear(up, width, hidden, bias=bias, leads=False),
        at.linear(down, hidden, width, Role.ROW, bias=bias),
    ]


def two_layers(
    at: Scope, hidden: int, width: int, *, bias: bool = False, names: tuple[str, str] = ("mlp.up_proj", "mlp.down_proj")
) -> list[Part]:
    """Return a feed-forward layer without a gate."""
    up, down = names
    return [at.linear(up, width, hidden, bias=bias), at.linear(down, hidden, width, Role.ROW, bias=bias)]


# -- experts ----------------------------------------------------------------------------------------------------------


def experts(
    at: Scope,
    count: int,
    hidden: int,
    width: int,
    *,
    within: str = "mlp.experts.{}",
    names: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj"),
    bias: bool = False,
    least: int = 0,
) -> list[Part]:
    """Return routed experts: matrices of `width` x `hidden`, the last of them turned round.

    `least`: a rank's share of the width, where ranks split it, is padded to no less.
    """
    each = at.under(within).copies(count)
    *ups, down = names
    parts: list[Part] = [
        each.linear(up, width, hidden, Role.EXPERT, kind="experts", leads=index == 0, bias=bias, least=least)
        for index, up in enumerate(ups)
    ]
    down_projection = each.linear(down, hidden, width, Role.EXPERT, axis=1, kind="experts", bias=bias, least=least)
    ranks = at.tensor("experts.rank_of_each", count, role=Role.MAP, dtype="int32", axis=None, holder="engine")
    return [*parts, down_projection, ranks]


def router(
    at: Scope, count: int, hidden: int, *, name: str = "mlp.gate", dtype: str = MODEL, correction: str = ""
) -> list[Part]:
    """Return the router's matrix, which is not quantised, and its float32 bias by the name `correction` ("": none)."""
    parts: list[Part] = [at.tensor(f"{name}.weight", count, hidden, dtype=dtype)]
    return [*parts, at.tensor(correction, count, dtype="float32")] if correction else parts
