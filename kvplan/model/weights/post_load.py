"""What loading adds to the weights, and what it may free: copies for the kernels that will run them.

    latent attention   the up-projection of keys and values is folded into the query's and the output's: views of it
                       where it is not quantised, copies in the model's dtype where it is
    GPTQ, symmetric    zero points are dropped, and so is the room for experts' biases that no checkpoint brought

Repacking for Marlin, Machete or a block-scaled kernel keeps the size; MXFP4's padding is in the weights already.
Source: vLLM 0.33.0, layers/attention/mla_attention.py and layers/quantization (process_weights_after_loading); read
from the code, not measured. What is freed stays in torch's pool, where later tensors may or may not fit: it is the
interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kvplan.ledger import Line
from kvplan.model.spec import ModelSpec
from kvplan.model.weights.expand import expand
from kvplan.model.weights.forms import Plain
from kvplan.model.weights.inventory import forms_of
from kvplan.model.weights.placement import Ranks, rank_bytes
from kvplan.model.weights.schemes.scheme import PLAIN, UNQUANTISED, Scheme
from kvplan.model.weights.tensors import Linear, Part, Tensor


def after_load(
    model: ModelSpec,
    parts: Iterable[Part],
    scheme: Scheme,
    tensors: Sequence[Tensor],
    ranks: Ranks,
    dtype: str,
    stage: int,
) -> Line:
    """Return the `post_load` line of one pipeline stage's rank."""
    if scheme is UNQUANTISED:
        return _NOTHING
    copies = list(_folded(parts, scheme)) if model.shape.mla_dims is not None else []
    added = rank_bytes(copies, ranks, dtype)[stage].total()
    freed = rank_bytes(_dropped(model, tensors), ranks, dtype)[stage].total()
    if not added and not freed:
        return _NOTHING
    why = "copies of the quantised up-projections of keys and values" if added else "zero points may be freed"
    return Line("post_load", added, added - freed, added, "modelled" if freed else "exact", why)


_NOTHING = Line.certain("post_load", 0, "exact", "nothing is copied or repacked to another size")


def _folded(parts: Iterable[Part], scheme: Scheme) -> Iterable[Tensor]:
    for part in parts:
        if isinstance(part, Linear) and part.name.endswith(".kv_b_proj"):
            for form, layers in forms_of(part, scheme):
                if not isinstance(form, Plain):
                    yield from expand(replace(part, layers=layers, bias=False), PLAIN)


def _dropped(model: ModelSpec, tensors: Iterable[Tensor]) -> Iterable[Tensor]:
    section = model.quantization.section if model.quantization is not None else {}
    symmetric = section.get("sym") is True
    for tensor in tensors:
        unused = tensor.name.endswith(".bias") and tensor.holder == "engine"
        if unused or (symmetric and tensor.name.endswith(".qzeros")):
            yield tensor
