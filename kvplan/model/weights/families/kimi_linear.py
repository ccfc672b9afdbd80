"""Kimi Linear: delta attention with a gate for every channel, between layers of latent attention without positions."""

from __future__ import annotations

from kvplan.model.spec import State
from kvplan.model.weights.blocks import experts, gated, router
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.latent import latent_attention
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.sparse import rest, shared, shared_width, sparse_layers
from kvplan.model.weights.tensors import Part, Role
from kvplan.model.weights.text import Text

_BLOCK = "block_sparse_moe"
_LEAST = 256  # of an expert's width on a rank: min_moe_intermediate_per_partition of vLLM 0.33.0's models/kimi_k3


@weighs("KimiLinearForCausalLM")
def kimi_linear(text: Text) -> list[Part]:
    """Return the parts of a Kimi Linear."""
    config, hidden = text.config, text.hidden
    deltas = [i for i in text.layers if any(isinstance(cache, State) for cache in text.shape.layers[i])]
    moe, count = sparse_layers(text), config.integer("num_experts")
    sparse, latent = text.at(layers=moe), text.at(layers=rest(text, deltas))
    correction = f"{_BLOCK}.gate.e_score_correction_bias"
    width, least = config.integer("moe_intermediate_size"), config.maybe_integer("min_moe_intermediate_per_partition")
    return [
        *ends(text),
        *_delta(text.at(layers=deltas), text),
        *latent_attention(latent, text),
        latent.table("self_attn._one_scale", 1),
        *gated(text.at(layers=rest(text, moe)), hidden, text.intermediate),
        *router(sparse, count, hidden, name=f"{_BLOCK}.gate", correction=correction),
        *experts(
            sparse,
            count,
            hidden,
            width,
            within=f"{_BLOCK}.experts.{{}}",
            names=("w1", "w3", "w2"),
            least=_LEAST if least is None else least,
        ),
        *shared(sparse, hidden, shared_width(text, "num_shared_experts"), f"{_BLOCK}.shared_experts"),
        *text.at().norms(hidden, *TWO_NORMS),
    ]


def _delta(at: Scope, text: Text) -> list[Part]:
    linear = text.config.maybe_section("linear_attn_config")
    if linear is None:
        raise text.config.lacks("linear_attn_config")
    heads, dim, hidden = linear.integer("num_heads"), linear.integer("head_dim"), text.hidden
    width, inside, whole = heads * dim, at.under("self_attn"), Role.REPLICATED
    own = {"role": Role.COLUMN, "dtype": "float32"}
    return [
        *(inside.linear(name, width, hidden, leads=name == "q_proj") for name in ("q_proj", "k_proj", "v_proj")),
        inside.linear("f_a_proj", dim, hidden, whole, leads=False),
        inside.linear("b_proj", heads, hidden, leads=False),
        inside.linear("f_b_proj", width, dim),
        inside.linear("g_a_proj", dim, hidden, whole),
        inside.linear("g_b_proj", width, dim),
        inside.tensor("conv1d.weight", 3 * width, 1, linear.integer("short_conv_kernel_size"), **own),
        inside.tensor("dt_bias", width, **own),
        inside.tensor("A_log", heads, **own),
        *inside.norm("o_norm", dim),
        inside.linear("o_proj", hidden, width, Role.ROW),
    ]
