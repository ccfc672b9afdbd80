"""The feed-forward parts of mixtures: which layers have experts, routed and shared ones, and the dense layers left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvplan.model.weights.blocks import experts, gated, router
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.tensors import MODEL, Part
from kvplan.model.weights.text import Text

W123 = ("w1", "w3", "w2")
CORRECTION = "mlp.gate.e_score_correction_bias"


def rest(text: Text, layers: Iterable[int]) -> list[int]:
    """Return the other layers."""
    taken = set(layers)
    return [i for i in text.layers if i not in taken]


def sparse_layers(text: Text) -> list[int]:
    """Return the layers that have experts: after the dense ones, or as `mlp_layer_types` say; all by default."""
    config = text.config
    dense = config.maybe_integer("first_k_dense_replace", low=0)
    types = config.maybe_texts("mlp_layer_types")
    if dense is None and types is not None:
        return [i for i in text.layers if i < len(types) and types[i] == "sparse"]
    step = config.integer("moe_layer_freq", default=1)
    return [i for i in text.layers if i >= (dense or 0) and i % step == 0]


def head_norms(at: Scope, text: Text) -> list[Part]:
    """Return the norms of query and key, head by head."""
    return at.norms(text.shape.head_dim, "self_attn.q_norm", "self_attn.k_norm")


def row_norms(at: Scope, text: Text) -> list[Part]:
    """Return the norms of query and key over all their channels, whole on every rank."""
    shape = text.shape
    return [
        *at.norm("self_attn.q_norm", shape.heads * shape.head_dim),
        *at.norm("self_attn.k_norm", shape.kv_heads * shape.head_dim),
    ]


def shared(at: Scope, hidden: int, width: int, name: str = "mlp.shared_experts", *, bias: bool = False) -> list[Part]:
    """Return the experts that every token takes, which are one feed-forward layer."""
    names = ("gate_proj", "up_proj", "down_proj")
    return gated(at.under(name), hidden, width, names=names, bias=bias) if width else []


def shared_width(text: Text, *counts: str) -> int:
    """Return the width of so many shared experts as one; 0 where the config has none."""
    count = text.config.maybe_integer(*(counts or ("n_shared_experts",)), low=0) or 0
    return count * text.config.integer("moe_intermediate_size") if count else 0


def mixture(
    text: Text,
    moe: Sequence[int],
    *,
    count: int,
    common: int = 0,
    dtype: str = MODEL,
    correction: str = CORRECTION,
    gate: str = "mlp.gate",
    bias: bool = False,
) -> list[Part]:
    """Return the feed-forward parts of a model with experts in the layers `moe` and a gated layer in the others.

    `common` is the width of the shared experts, `dtype` the router's, `correction` the name of its bias ("": none).
    """
    hidden, at, dense = text.hidden, text.at(layers=moe), rest(text, moe)
    width = text.config.maybe_integer("moe_intermediate_size") or text.intermediate
    return [
        *(gated(text.at(layers=dense), hidden, text.intermediate, bias=bias) if dense else []),
        *router(at, count, hidden, name=gate, dtype=dtype, correction=correction),
        *experts(at, count, hidden, width),
        *shared(at, hidden, common, bias=bias),
    ]
