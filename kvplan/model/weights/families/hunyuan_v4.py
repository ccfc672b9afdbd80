"""Hunyuan 4: latent attention with sinks and a gate, indexers, two residual streams."""

from __future__ import annotations

from kvplan.model.spec import Indexer
from kvplan.model.weights.dense import TWO_NORMS
from kvplan.model.weights.ends import ends
from kvplan.model.weights.families import weighs
from kvplan.model.weights.latent import indexer, latent_attention, latent_table
from kvplan.model.weights.scope import Scope
from kvplan.model.weights.sparse import mixture, shared_width, sparse_layers
from kvplan.model.weights.tensors import Part, Role, Stage
from kvplan.model.weights.text import Text


@weighs("HYV4ForCausalLM")
def hunyuan_v4(text: Text) -> list[Part]:
    """Return the parts of a Hunyuan V4: latent attention with sinks and a gate, indexers, two residual streams."""
    at, hidden, config, shape = text.at(), text.hidden, text.config, text.shape
    indexed = [i for i in text.layers if any(isinstance(cache, Indexer) for cache in shape.layers[i])]
    streams = config.integer("hc_mult")
    own = {"dtype": "float32"}
    rows = 2 * streams  # one weight in and one out a stream
    last = Scope("model.hc_head.", stage=Stage.LAST)
    return [
        *ends(text),
        *latent_attention(at, text),
        at.tensor("self_attn.learnable_sink_param", shape.heads, role=Role.COLUMN, **own),
        at.linear("self_attn.linear_gate", shape.heads * config.integer("v_head_dim"), hidden),
        *indexer(text.at(layers=indexed), text, hidden),
        *mixture(
            text, sparse_layers(text), count=config.integer("num_experts", "n_routed_experts"), dtype="float32",
            common=shared_width(text, "num_shared_experts", "num_shared_expert", "n_shared_experts"),
            correction="mlp.expert_bias",
        ),
        *at.norms(hidden, *TWO_NORMS),
        *(at.tensor(f"hc_{half}.hc_fn.weight", rows, streams * hidden, **own) for half in ("attn", "mlp")),
        *(at.tensor(f"hc_{half}.hc_base", rows, **own) for half in ("attn", "mlp")),
        *(at.tensor(f"hc_{half}.hc_scale", 2, **own) for half in ("attn", "mlp")),
        last.tensor("hc_head_fn.weight", streams, streams * hidden, **own),
        last.tensor("hc_head_base", streams, **own),
        last.tensor("hc_head_scale", 1, **own),
        *latent_table(text),
    ]  # fmt: skip
