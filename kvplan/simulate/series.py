"""The two series of a replay, a line a step and a line a request, and their CSV: integers, LF, no quotes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class StepRow(NamedTuple):
    """One step. Queues and `used_blocks` are as schedule() leaves them, `used_blocks_end` as delivered tokens do.

    `decode_tokens` belong to requests that continue past their prompt by one token and sample; all other scheduled
    tokens, recomputation after a preemption too, are `prefill_tokens`. `hit_*` are the lookups of first admissions,
    `pre_*` those after a preemption. `cached_hashes` counts distinct keys, `evicted` blocks that lost theirs.
    `kv_read_tokens` is what the step reads of the cache: the scheduled requests' computed tokens after it.
    """

    step: int
    t_ns: int
    arrived: int
    running: int
    waiting: int
    scheduled_reqs: int
    prefill_tokens: int
    decode_tokens: int
    new_reqs: int
    resumed_reqs: int
    preempted: int
    used_blocks: int
    cached_hashes: int
    evicted: int
    hit_queried: int
    hit_tokens: int
    pre_queried: int
    pre_hit: int
    finished: int
    used_blocks_end: int
    kv_read_tokens: int
    dur_ns: int


class RequestRow(NamedTuple):
    """One request, or one of its n children. `first_token_step` computed the first token, `finish_step` ended it.

    None is what did not happen, and `hit_first` without prefix caching.
    """

    seq: int
    row: int
    child: int
    prompt_len: int
    max_tokens: int
    arrival_ns: int
    arrival_step: int
    first_sched_step: int | None
    first_token_step: int | None
    finish_step: int | None
    finish_ns: int | None
    preemptions: int
    hit_first: int | None
    output_tokens: int


class Timing(NamedTuple):
    """When a request got what, in nanoseconds on the virtual clock; None is what did not happen."""

    first_sched_ns: int | None
    first_token_ns: int | None


StepSink: TypeAlias = Callable[[StepRow], None]
RequestSink: TypeAlias = Callable[[RequestRow, Timing], None]


def header(row: type[StepRow | RequestRow]) -> str:
    """Return the CSV header of a series."""
    return ",".join(row._fields) + "\n"


def line(row: StepRow | RequestRow) -> str:
    """Return the CSV line of a row."""
    return ",".join(["" if value is None else str(value) for value in row]) + "\n"
