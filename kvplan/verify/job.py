"""One rank's verification from the parent's side: from the card's facts to a plan, to an order, to a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.activation.widths import widths_of
from kvplan.engine.vllm.releases import release
from kvplan.engine.vllm.residue import non_torch, start_loss
from kvplan.engine.vllm.settings import Device as EngineDevice
from kvplan.errors import NO, NO_GPU, NoGpu, UnknownGpu
from kvplan.hardware import Gpu, find_gpu
from kvplan.model.spec import ModelSpec
from kvplan.planner import Plan, plan, read_draft
from kvplan.units import gib
from kvplan.verify.compare import Result, compare
from kvplan.verify.device import Facts
from kvplan.verify.order import order, rehearsal
from kvplan.verify.pool import lay_out_pool
from kvplan.verify.ranks import Place

REHEARSED_CARD = "h200"  # what a rehearsal plans for where no --gpu is named
REHEARSED_TOKENS = 100  # of a request, or a page and a quarter where that is more
REHEARSED_REQUESTS = (2, 8)  # by default, and at most


# The plan's refusals that say "busy, or smaller than the budget asks"
_CARD_TOO_SMALL = frozenset({"free_memory_below_request", "no_kv_memory"})


class Refused(Exception):
    """There is nothing to verify: the engine would not start, or keeps no cache. `hint` says what would help."""

    def __init__(self, message: str, hint: str = "", code: int = NO) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


class Talk(Protocol):
    """The child, as far as a job speaks with it."""

    def tell(self, message: Any) -> None:
        """Send a message."""

    def ask(self) -> Any:
        """Return the next message."""

    def finished(self) -> None:
        """Note that nothing more will be asked."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to verify: a model, its flags as given and as checked, and how thoroughly."""

    model: ModelSpec
    flags: Mapping[str, Any]
    args: EngineArgs
    engine: str
    gpu: str | None
    place: Place
    quick: bool
    tune: bool
    concurrency: int | None

    def run(self, child: Talk, tolerance: float) -> tuple[Facts, Plan, list[Result]]:
        """Plan for the child's card, have it carried out, and return all ranks' results; raises Refused, Shortfall."""
        facts: Facts = child.ask()
        card = self._card(facts)
        made = self._rehearsed_plan(card) if facts.rehearsal else self._plan(card)
        blocks = made.kv.num_blocks if made.verdict == "fits" else None
        child.tell(blocks or 0)
        agreed: int = child.ask()
        if blocks is None:
            reason = made.reasons[0]
            code = NO_GPU if reason.code in _CARD_TOO_SMALL else NO
            raise Refused(f"the engine would not start: {reason.message}", reason.hint, code)
        if not made.kv.groups:
            raise Refused(f"{self.model.id} keeps nothing in a KV cache")
        if agreed == 0:
            raise Refused("another rank's plan was refused")
        made = _with_blocks(made, agreed)
        size = agreed * (made.kv.bytes_per_block or 0)
        if size > facts.memory.total:
            raise Refused(f"a pool of {gib(size)} is larger than the card of {gib(facts.memory.total)}", code=NO_GPU)
        tp = self.args.tensor_parallel_size
        chosen = release(self.engine.partition("@")[2] or None)
        pool = lay_out_pool(self.model, self._sized(made), card, chosen, read_draft(self.args), self.place.rank // tp)
        widths = widths_of(self.model, tp, expert_parallel=self.args.enable_expert_parallel)
        ranks = max(tp, self.args.pipeline_parallel_size) if self.place.size > 1 else 1
        whole = order(
            made,
            pool,
            widths,
            context=start_loss(chosen, card, ranks).bytes - card.held_bytes,
            non_torch=non_torch(chosen, EngineDevice.of(card), tp if self.place.size > 1 else 1).bytes,
            requests=self._requests(made, rehearsed=facts.rehearsal),
            quick=self.quick or facts.rehearsal,
            tune=self.tune,
        )
        asked = rehearsal(whole) if facts.rehearsal else whole
        child.tell(asked)
        measured = child.ask()
        result = compare(made, pool, asked, measured, tolerance=tolerance, rank=self.place.rank)
        child.tell(result)
        results: list[Result] = child.ask()
        child.finished()
        return facts, made, results

    def _card(self, facts: Facts) -> Gpu:
        """Return the profile of the child's card, with the driver's memory in the catalogue's place."""
        name = self.gpu or (REHEARSED_CARD if facts.rehearsal else facts.name)
        try:
            card = find_gpu(name)
        except UnknownGpu as error:
            if self.gpu is not None:
                raise
            raise NoGpu(
                f"the catalogue has no {facts.name}", "plan by the profile of a card that is like it: --gpu NAME"
            ) from error
        if facts.rehearsal:
            return card
        total = facts.memory.total
        return replace(
            card,
            compute_capability=facts.capability or card.compute_capability,
            memory_bytes=total,
            memory_low=total,
            memory_high=total,
            memory_basis="measured",
            memory_source="the driver, now",
            held_bytes=facts.held_bytes or 0,
            assumed_among=(),
        )

    def _plan(self, card: Gpu, **changes: Any) -> Plan:
        return plan(self.model, engine=self.engine, gpu=card, **{**self.flags, **changes})

    def _rehearsed_plan(self, card: Gpu) -> Plan:
        """Plan a pool for a few short requests: just so many blocks, whatever the card would hold."""
        length = self._rehearsed_length(REHEARSED_TOKENS)
        first = self._plan(card, max_model_len=length, num_gpu_blocks_override=1)
        sizes = [group.block_size for group in first.kv.groups if group.kind != "state"]
        page = max(sizes, default=1)
        length = self._rehearsed_length(max(REHEARSED_TOKENS, page + page // 4 + 1))
        second = self._plan(card, max_model_len=length, num_gpu_blocks_override=1)
        requests = min(self.concurrency or REHEARSED_REQUESTS[0], REHEARSED_REQUESTS[1])
        needed = 1 + requests * sum(group.blocks_per_request for group in second.kv.groups)
        blocks = min(needed, self.args.num_gpu_blocks_override or needed)
        return self._plan(card, max_model_len=length, num_gpu_blocks_override=blocks)

    def _rehearsed_length(self, tokens: int) -> int:
        asked = self.args.max_model_len
        return min(tokens, asked) if isinstance(asked, int) else tokens

    def _requests(self, made: Plan, *, rehearsed: bool) -> int | None:
        if not rehearsed:
            return self.concurrency
        most = min(self.concurrency or REHEARSED_REQUESTS[0], REHEARSED_REQUESTS[1])
        return most if self.concurrency else min(most, max(1, int(made.kv.max_concurrency or 1)))

    def _sized(self, made: Plan) -> EngineArgs:
        """Return the flags with the length that the plan ended up with, from which some blocks take their size."""
        return replace(self.args, max_model_len=made.kv.max_model_len)


def _with_blocks(made: Plan, blocks: int) -> Plan:
    """Return the plan with the block count that all ranks agreed on: the smallest, as in the engine."""
    if blocks == made.kv.num_blocks:
        return made
    claimed = sum(group.blocks_per_request for group in made.kv.groups)
    return replace(made, kv=replace(made.kv, num_blocks=blocks, max_concurrency=blocks / claimed))
