"""Weights of an architecture without a rule: by what its files store, else by models of its kind, else by its sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kvplan.errors import InvalidConfig
from kvplan.ledger import Line
from kvplan.model.spec import Full, ModelSpec
from kvplan.model.weights.inventory import quantised, scheme_for
from kvplan.model.weights.likeness import likeness
from kvplan.model.weights.placement import Ranks, rank_bytes
from kvplan.model.weights.tensors import MODEL, Role, Tensor, item_bytes
from kvplan.sources.headers import Stored

# Names that say how a matrix is laid over the ranks, in the order in which they are tried
_ROLES: tuple[tuple[re.Pattern[str], Role, int], ...] = tuple(
    (re.compile(pattern), role, axis)
    for pattern, role, axis in (
        (r"vision|visual|audio|image|vit\b|\bvpm\b|encoder_model", Role.TOWER, 0),
        (r"experts\.\{\}\.|experts\.(?:w13|w1|w3|gate_up_proj|gate_proj|up_proj)\b", Role.EXPERT, 0),
        (r"experts\.", Role.EXPERT, 0),
        (r"embed|wte\b|lm_head|output_layer", Role.VOCABULARY, 0),
        (r"\b(?:o_proj|out_proj|down_proj|w2|c_proj|fc2|dense_4h_to_h|wo)\b", Role.ROW, 1),
        (r"norm|router|\bgate\b|_a_proj|bias$|scale|zero", Role.REPLICATED, 0),
    )
)


def estimate(model: ModelSpec, ranks: Ranks, dtype: str, why: str, asked: str | None) -> Line:
    """Return the modelled bytes of one rank; `why` says why they are not computed, `asked` is --quantization."""
    if model.stored:
        return _from_headers(model.stored, ranks, dtype, why)
    try:
        tensors = quantised(likeness(model), scheme_for(model, asked), ranks)
        size = max(roles.total() for roles in rank_bytes(tensors, ranks, dtype))
    except InvalidConfig:
        size = _from_sizes(model, ranks, dtype)
        return Line("weights", size, size * 7 // 10, size * 3 // 2, "modelled", f"{why}: by its sizes alone")
    return Line("weights", size, size * 7 // 10, size * 7 // 5, "modelled", f"{why}: by models of its kind")


def stored_tensors(stored: Sequence[Stored]) -> Iterator[Tensor]:
    """Yield what files store as an inventory; the roles are told by the names, matrices of unknown ones are columns."""
    for found in stored:
        role, axis = Role.COLUMN if len(found.shape) > 1 else Role.REPLICATED, 0
        for pattern, named, named_axis in _ROLES:
            if pattern.search(found.name):
                role, axis = named, named_axis if len(found.shape) > named_axis else 0
                break
        yield Tensor(found.name, found.shape, role, found.dtype, axis if found.shape else None, each=found.count)


def _from_headers(stored: Sequence[Stored], ranks: Ranks, dtype: str, why: str) -> Line:
    """Return the bytes of the files' tensors as their names lay them over the ranks, and evenly over the stages."""
    flat = Ranks(ranks.tensor, ranks.data, ranks.expert_parallel)
    stages = max(1, len(ranks.stages))
    whole = sum(found.bytes * found.count for found in stored)
    kept = rank_bytes(stored_tensors(stored), flat, dtype)[0]
    size = kept.total() // stages
    shared = kept[Role.REPLICATED] + kept[Role.TOWER]
    low, high = min(size, whole // (ranks.experts * stages)), size + shared + whole // 20
    return Line("weights", size, low, high, "modelled", f"{why}: by the headers of its files, roles by their names")


def _from_sizes(model: ModelSpec, ranks: Ranks, dtype: str) -> int:
    """Return attention, feed-forward and embeddings of one rank, split evenly, at the section's bits an element."""
    shape, layers = model.shape, len(model.shape.layers)
    hidden = model.hidden_size or shape.heads * shape.head_dim
    attention = 0
    for cache in shape.caches():
        heads = cache.kv_heads * cache.head_dim if isinstance(cache, Full) else 0
        attention += hidden * (2 * shape.heads * shape.head_dim + 2 * heads)
    stages = max(1, len(ranks.stages))
    if model.num_experts:
        width = model.moe_intermediate_size or model.intermediate_size or 0
        forward = 3 * hidden * width * model.num_experts * layers // ranks.experts
    else:
        forward = 3 * hidden * (model.intermediate_size or 4 * hidden) * layers // ranks.tensor
    parameters = (forward + (attention + 2 * model.vocab_size * hidden) // ranks.tensor) // stages
    quantization = model.quantization
    bits = quantization.bits if quantization is not None and quantization.bits else 8 * item_bytes(MODEL, dtype)
    return parameters * bits // 8
