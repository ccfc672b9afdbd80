"""Parameter bytes from the config's sizes: an estimate with an interval."""

from __future__ import annotations

from kvplan.ledger import Line
from kvplan.model.spec import Full, ModelSpec


def estimate_weights(model: ModelSpec, item: int, tp: int, pp: int) -> Line:
    """Return the estimated parameter bytes of one rank."""
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
    bits = model.quantization.bits if model.quantization is not None and model.quantization.bits else 8 * item
    size = parameters * bits // 8 // (tp * pp)
    return Line("weights", size, size * 8 // 10, size * 13 // 10, "modelled", "computed from the config's sizes")
