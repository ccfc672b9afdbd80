"""What the engine prints of its pool: blocks, tokens, concurrency and groups; or why it does not start with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvplan.engine.vllm.capacity import Pool
from kvplan.engine.vllm.grouping import Group
from kvplan.engine.vllm.launch import Launch
from kvplan.engine.vllm.pages import WHOLE_LENGTH, Kind, Scheduling
from kvplan.planner import Budget, GroupFacts, KvFacts, Note
from kvplan.units import gib


def count_pool(pool: Pool, launch: Launch, budget: Budget) -> tuple[list[Note], KvFacts]:
    """Return why the pool would not do, and its figures."""
    settings, args, release = launch.settings, launch.args, launch.release
    available = budget.kv_bytes if budget.least_kv_bytes is None else budget.least_kv_bytes
    if not pool.groups:
        # nothing to cache: the engine keeps one placeholder block and prints no capacity
        return [], replace(unknown(settings.max_model_len), num_blocks=1, bytes_per_token=0, sequence_bytes=0)
    length = settings.max_model_len
    reasons: list[Note] = []
    override = args.num_gpu_blocks_override
    if override is not None and (release.override_checked or available is None):
        available = override * pool.bytes_per_block
    if available is not None:
        longest = pool.longest(length, available)
        if settings.auto_length and longest:
            length = longest
        elif not pool.fits(length, available):
            reasons.append(_no_room(pool, length, available, longest, budget, launch.device.memory_bytes))
    else:
        longest = None
    blocks = (override or pool.num_blocks(available)) if available is not None and not reasons else None
    facts = KvFacts(
        bytes_per_token=_bytes_per_token(pool.groups),
        block_size=pool.block_size,
        bytes_per_block=pool.bytes_per_block,
        num_blocks=blocks,
        tokens=pool.tokens(blocks, length) if blocks is not None else None,
        max_concurrency=pool.concurrency(blocks, length) if blocks is not None else None,
        max_model_len=length,
        longest_model_len=longest,
        max_running_requests=settings.max_num_seqs,
        sequence_bytes=pool.needed(length),
        groups=tuple(_facts(group, length, pool.scheduling) for group in pool.groups),
    )
    return reasons, facts


def _no_room(pool: Pool, length: int, available: int, longest: int, budget: Budget, memory: int) -> Note:
    """Return the engine's own refusal, with the longest length that fits."""
    usable = pool.usable(available)
    if usable <= 0:
        left = min((line.bytes for line in budget.lines if line.name == "kv_cache"), default=available)
        lost = f"{gib(-left, 2)} are missing" if left < 0 else f"{gib(available, 2)} are less than one block"
        more = "more GPUs (--tensor-parallel-size), a larger card, or smaller weights"
        # utilisation helps where the rest of the card would do
        share = "a larger --gpu-memory-utilization, " if 0 < -left < memory - (budget.requested_bytes or memory) else ""
        return Note("no_kv_memory", f"nothing is left for the KV cache: {lost}", share + more)
    hint = f"--max-model-len {longest} fits" if longest else "not even one token fits"
    return Note(
        "max_model_len_does_not_fit",
        f"one request of {length} tokens needs {gib(pool.needed(length), 2)} of KV cache, {gib(usable, 2)} are there",
        hint,
    )


def _bytes_per_token(groups: Sequence[Group]) -> int | None:
    """Return the bytes of a token over all layers, where that is a constant: whole-length layers of one block size."""
    distinct = [page for group in groups for page in group.distinct]
    if any(page.kind not in WHOLE_LENGTH for page in distinct) or len({page.block_size for page in distinct}) > 1:
        return None
    total, size = sum(group.bytes for group in groups), distinct[0].block_size
    return total // size if total % size == 0 else None


def _facts(group: Group, length: int, scheduling: Scheduling) -> GroupFacts:
    kinds = {page.kind for page in group.distinct}
    kind = kinds.pop() if len(kinds) == 1 else Kind.FULL
    return GroupFacts(
        kind=kind.value,
        layers=len(group.layers),
        block_size=group.block_size,
        page_bytes=group.pages[0].bytes if len(group.distinct) == 1 else group.bytes,
        blocks_per_request=group.blocks(length, scheduling),
    )


def unknown(length: int) -> KvFacts:
    """Return the figures of a pool that is not known."""
    return KvFacts(None, None, None, None, None, None, length, None, None, None, ())
