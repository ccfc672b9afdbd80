"""Parameter bytes of an architecture that has no rule: the sizes that every config has, with a wide interval."""

from __future__ import annotations

from kvplan.ledger import Line
from kvplan.model.spec import Full, ModelSpec
from kvplan.model.weights.placement import Ranks
from kvplan.model.weights.tensors import item_bytes


def estimate(model: ModelSpec, ranks: Ranks, dtype: str) -> Line:
    """Return the estimated bytes of one rank: attention, feed-forward and embeddings, split evenly."""
    hidden, shape = model.hidden_size, model.shape
    attention = 0
    for cache in shape.caches():
        heads = cache.kv_heads * cache.head_dim if isinstance(cache, Full) else 0
        attention += hidden * (2 * shape.heads * shape.head_dim + 2 * heads)
    layers = len(shape.layers)
    if model.num_experts:
        mlp = 3 * hidden * (model.moe_intermediate_size or model.intermediate_size or 0) * model.num_experts * layers
    else:
        mlp = 3 * hidden * (model.intermediate_size or 4 * hidden) * layers
    parameters = attention + mlp + 2 * model.vocab_size * hidden
    quantization = model.quantization
    bits = quantization.bits if quantization is not None and quantization.bits else 8 * item_bytes("model", dtype)
    size = parameters * bits // 8 // (ranks.tensor * max(1, len(ranks.stages)))
    return Line("weights", size, size * 8 // 10, size * 13 // 10, "modelled", "no rule for this architecture: its sizes")
