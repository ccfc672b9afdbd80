"""What one step reads of a rank's weights, and what one token computes: of experts those that tokens are sent to.

A decode step reads every matrix once, whatever the batch, but for the embedding (a row a token) and for experts that
no token of the batch chose. With `chosen` of `count` experts a token, evenly spread, a batch of B leaves an expert out
with probability (1 - chosen/count)^B.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kvplan.errors import InvalidConfig
from kvplan.model.fields import Fields
from kvplan.model.read import text_section
from kvplan.model.spec import ModelSpec
from kvplan.model.weights.inventory import parts_of, quantised, scheme_for
from kvplan.model.weights.placement import Ranks, rank_bytes
from kvplan.model.weights.schemes.scheme import Capability
from kvplan.model.weights.tensors import Linear, Part, Role, Stage
from kvplan.record import dataclass

_CHOSEN = (
    "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "top_k_experts", "experts_per_token",
    "moe_num_experts_per_tok", "moe_k", "top_k", "num_selected_experts",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Active:
    """Bytes of one rank over all its pipeline stages, and the model's parameters that compute one token.

    `dense` is read in every step, `experts` in the measure that tokens are sent to them: `chosen` of `count` each.
    """

    dense: int
    experts: int
    chosen: int
    count: int
    parameters: int

    def read(self, batch: int) -> float:
        """Return the bytes that a step of so many tokens reads."""
        return self.dense + self.experts * self.share(batch)

    def share(self, batch: int) -> float:
        """Return the expected share of the experts that some token of the batch is sent to."""
        return 1 - (1 - self.chosen / self.count) ** batch if self.count else 0.0


def active(model: ModelSpec, ranks: Ranks, dtype: str, asked: str | None, capability: Capability) -> Active | None:
    """Return what is read of a rank; None where the architecture has no rule, or its config lacks something."""
    try:
        parts = parts_of(model)
        if parts is None:
            return None
        tensors = tuple(quantised(_read(parts), scheme_for(model, asked, capability), ranks))
        routed = [part for part in parts if isinstance(part, Linear) and part.kind == "experts"]
        count = max((part.each for part in routed), default=0)
        chosen = min(_chosen(model), count) if count else 0
    except InvalidConfig:
        return None
    by_role: Counter[Role] = sum(rank_bytes(tensors, replace(ranks, stages=()), dtype), Counter())
    experts = by_role.pop(Role.EXPERT, 0)
    return Active(by_role.total(), experts, chosen, count, _parameters(parts, chosen))


def _read(parts: Sequence[Part]) -> list[Part]:
    """Return what a decode step reads: no encoders, no tables, no embedding but the one that also projects."""
    projects = any(isinstance(part, Linear) and part.kind == "head" for part in parts)
    read: list[Part] = []
    for part in parts:
        if isinstance(part, Linear) and part.kind == "embedding":
            if not projects:
                read.append(part)
            projects = True  # further embeddings (by layer, of types) are looked up in
        elif part.stage is not Stage.FIRST and part.role not in (Role.TOWER, Role.TABLE, Role.MAP):
            read.append(part)
    return read


def _chosen(model: ModelSpec) -> int:
    return text_section(Fields(model.config)).integer(*_CHOSEN)


def _parameters(parts: Iterable[Part], chosen: int) -> int:
    """Return the parameters of the matrices that one token passes through: 2 FLOPs each."""
    total = 0
    for part in parts:
        if isinstance(part, Linear) and part.kind != "embedding" and part.role is not Role.TOWER and part.layers:
            each = min(part.each, chosen) if part.kind == "experts" else part.each
            total += len(part.layers) * each * part.rows * part.columns
    return total
