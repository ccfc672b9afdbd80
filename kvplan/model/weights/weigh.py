"""The weights of one rank: exact where the architecture has a rule, else an estimate that says what it rests on."""

from __future__ import annotations

from collections import Counter

from kvplan.errors import InvalidConfig
from kvplan.ledger import Line
from kvplan.model.spec import ModelSpec
from kvplan.model.weights.inventory import parts_of, quantised, scheme_for
from kvplan.model.weights.placement import Ranks, rank_bytes
from kvplan.model.weights.post_load import after_load
from kvplan.model.weights.schemes.scheme import HOPPER, Capability
from kvplan.model.weights.tensors import Role, Tensor
from kvplan.record import dataclass
from kvplan.units import TIB, binary

_MOST = 1024 * TIB  # the largest public checkpoint has 2 TiB


@dataclass(frozen=True, slots=True)
class Weights:
    """What one rank allocates: the ledger's line, and its bytes by role (empty where they are not known).

    `post_load` is what the engine makes of them when they are in.
    """

    line: Line
    roles: Counter[Role]
    post_load: Line


def weigh(
    model: ModelSpec, ranks: Ranks, *, dtype: str, asked: str | None = None, capability: Capability = HOPPER
) -> Weights:
    """Return the parameters and buffers of the fullest rank.

    `asked` is --quantization; `capability` the card's, whose kernels may want room for padding. A config that lacks
    what a rule needs gives a modelled figure, as an architecture without a rule does: the KV cache hangs on neither.
    """
    try:
        parts = parts_of(model)
        if parts is None:
            return _modelled(model, ranks, dtype, f"no weight rule for {model.architecture}", asked)
        scheme = scheme_for(model, asked, capability)
        tensors = tuple(quantised(parts, scheme, ranks))
    except InvalidConfig as error:
        return _modelled(model, ranks, dtype, error.message, asked)
    stages = rank_bytes(tensors, ranks, dtype)
    _check(max(roles.total() for roles in stages))
    fullest = max(range(len(stages)), key=lambda stage: stages[stage].total())
    roles = stages[fullest]
    size = roles.total()
    line = Line.certain("weights", size, "exact", "computed from the config")
    if not scheme.certain:
        why = "computed from the config, the quantised form guessed by its bits"
        line = Line("weights", size, size * 9 // 10, size * 11 // 10, "modelled", why)
    return Weights(line, roles, after_load(model, parts, scheme, tensors, ranks, dtype, fullest))


def _modelled(model: ModelSpec, ranks: Ranks, dtype: str, why: str, asked: str | None) -> Weights:
    from kvplan.model.weights.estimate import estimate  # noqa: PLC0415  # most models are computed

    nothing = Line.certain("post_load", 0, "modelled", "not known for this architecture")
    line = estimate(model, ranks, dtype, why, asked)
    _check(line.bytes)
    return Weights(line, Counter(), nothing)


def _check(size: int) -> None:
    """Raise InvalidConfig where sizes that may each be right make a model that no machine holds."""
    if size > _MOST:
        raise InvalidConfig(f"config.json: its sizes make weights of {binary(size)} on one rank")


def is_computed(model: ModelSpec) -> bool:
    """Say whether a rule computes the model's tensors from its config."""
    try:
        return parts_of(model) is not None
    except InvalidConfig:
        return False


def inventory(model: ModelSpec) -> tuple[Tensor, ...] | None:
    """Return the tensors of the checkpoint and of the engine; None where the architecture has no rule."""
    parts = parts_of(model)
    return None if parts is None else tuple(quantised(parts, scheme_for(model)))
