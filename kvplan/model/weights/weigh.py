"""The weights of one rank: exact where the architecture has a rule, otherwise an estimate that says what it rests on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kvplan.ledger import Line
from kvplan.model.spec import ModelSpec
from kvplan.model.weights.estimate import estimate
from kvplan.model.weights.inventory import parts_of, quantised, scheme_for
from kvplan.model.weights.placement import Ranks, rank_bytes
from kvplan.model.weights.schemes.scheme import HOPPER, Capability
from kvplan.model.weights.tensors import Role, Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    """What one rank allocates: the ledger's line, and its bytes by role (empty where they are not known)."""

    line: Line
    roles: Counter[Role]


def weigh(
    model: ModelSpec,
    ranks: Ranks,
    *,
    dtype: str,
    asked: str | None = None,
    capability: Capability = HOPPER,
) -> Weights:
    """Return the parameters and buffers of the fullest rank, before any repacking.

    `asked` is --quantization; `capability` the card's, whose kernels may want room for padding.
    """
    parts = parts_of(model)
    if parts is None:
        return Weights(estimate(model, ranks, dtype), Counter())
    scheme = scheme_for(model, asked, capability)
    roles = max(rank_bytes(quantised(parts, scheme), ranks, dtype), key=Counter.total)
    size = roles.total()
    if scheme.certain:
        return Weights(Line.certain("weights", size, "exact", "computed from the config"), roles)
    low, high = size * 9 // 10, size * 11 // 10
    why = "computed from the config, the quantised form guessed by its bits"
    return Weights(Line("weights", size, low, high, "modelled", why), roles)


def inventory(model: ModelSpec) -> tuple[Tensor, ...] | None:
    """Return the tensors of the checkpoint and of the engine; None where the architecture has no rule."""
    parts = parts_of(model)
    return None if parts is None else tuple(quantised(parts, scheme_for(model)))
