"""What the child is told to do: sizes, requests and rows, made from a plan before anything touches the card."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kvplan.engine.vllm.activation.widths import Widths
from kvplan.ledger import Line
from kvplan.planner import Plan
from kvplan.units import MIB
from kvplan.verify.batch import crowd, deal
from kvplan.verify.device import Attention, Batch
from kvplan.verify.pool import Pool
from kvplan.verify.probe import Probe

# The plan's lines that verify measures; all others are held as so many bytes, and never called measured
MEASURED = ("activations", "non_torch", "kv_cache")
GRANULE = 2 * MIB  # the caching allocator asks the driver for blocks of at least 10 MiB in whole granules
ROWS, QUICK_ROWS = 12, 4
QUICK_LENGTH = 4096  # tokens: a decode that is over in a blink
SEED = 20_240_229


@dataclass(frozen=True, slots=True)
class Sample:
    """An output row to compare with float64: which batch, layer, request and query head."""

    batch: int
    layer: int
    request: int
    head: int


@dataclass(frozen=True, slots=True)
class Order:
    """A verification of one rank. Sizes are bytes.

    `context` and `non_torch` are what the plan expects the libraries to take, before the engine's first look and after;
    `requested` is the engine's share. `regions` are filled, read back and decoded; `rest` is what else the planned pool
    takes (--quick fills one layer of each kind). `batches` are the planned crowd and one long request.
    """

    blocks: int
    regions: tuple[int, ...]
    rest: int
    dtype: str
    layers: tuple[Attention, ...]
    batches: tuple[Batch, ...]
    samples: tuple[Sample, ...]
    ballast: tuple[tuple[str, int], ...]
    context: int
    non_torch: int
    requested: int
    probe: Probe
    tune: bool

    @property
    def pool_bytes(self) -> int:
        """The planned pool as the driver counts it: each region in whole granules."""
        return sum(granules(size) for size in (*self.regions, *((self.rest,) if self.rest else ())))


def granules(size: int) -> int:
    """Return an allocation as it shows in the driver's free memory."""
    return -(-size // GRANULE) * GRANULE


def order(
    plan: Plan,
    pool: Pool,
    widths: Widths,
    *,
    context: int,
    non_torch: int,
    requests: int | None,
    quick: bool,
    tune: bool,
) -> Order:
    """Return the order of a plan that fits; raises Shortfall for more requests than the pool holds.

    `context` and `non_torch` are those of the ranks that really run: one process has no NCCL. What the plan keeps for
    it beyond that is held.
    """
    kv = plan.kv
    assert kv.num_blocks is not None
    assert kv.max_concurrency is not None
    assert plan.budget.requested_bytes is not None
    whole = pool.bytes_per_block * kv.num_blocks
    cut = pool.one_of_each() if quick else pool
    asked = requests or max(1, min(int(kv.max_concurrency), kv.max_running_requests or 1))
    length = min(kv.max_model_len, QUICK_LENGTH) if quick else kv.max_model_len
    batches = (
        crowd(cut, kv.num_blocks, asked, length, SEED),
        deal(cut, kv.num_blocks, [length], SEED + 1),
    )
    settings = plan.engine_settings
    return Order(
        blocks=kv.num_blocks,
        regions=tuple(page * kv.num_blocks for page in cut.regions),
        rest=whole - cut.bytes_per_block * kv.num_blocks,
        dtype=cut.dtype,
        layers=cut.layers,
        batches=batches if cut.layers else (),
        samples=_samples(cut.layers, batches, QUICK_ROWS if quick else ROWS),
        ballast=tuple(_ballast(plan.budget.lines, non_torch)),
        context=context,
        non_torch=non_torch,
        requested=plan.budget.requested_bytes,
        probe=_probe(plan, widths, settings["max_num_batched_tokens"], settings["max_num_seqs"]),
        tune=tune,
    )


def rehearsal(full: Order) -> Order:
    """Return the order with everything that only takes memory scaled down; the pool is small already."""
    probe = full.probe.scaled(tokens=16, sequences=4, widths=8)
    ballast = tuple((name, size // 1024) for name, size in full.ballast)
    held = sum(granules(size) for _, size in ballast) + granules(probe.peak()) + full.pool_bytes
    layers = tuple(_shorter_window(layer) for layer in full.layers)
    return replace(full, layers=layers, ballast=ballast, context=0, non_torch=0, probe=probe, requested=held + GRANULE)


def _shorter_window(layer: Attention) -> Attention:
    """A window that a rehearsal's short requests pass: one page and a bit, so that it begins inside a page."""
    window = None if layer.window is None else min(layer.window, layer.page + layer.page // 2 + 1)
    return replace(layer, window=window)


def _ballast(lines: Sequence[Line], non_torch: int) -> Iterator[tuple[str, int]]:
    for line in lines:
        if line.name not in MEASURED and line.bytes > 0:
            yield line.name, line.bytes
        if line.name == "non_torch" and line.bytes > non_torch:
            yield "nccl", line.bytes - non_torch


def _samples(layers: Sequence[Attention], batches: Sequence[Batch], count: int) -> tuple[Sample, ...]:
    """Return rows of every batch: first and last request, then what chance brings; layers spread over the model."""
    draw = random.Random(SEED)  # noqa: S311
    found = []
    for number, batch in enumerate(batches if layers else ()):
        ends = [0, batch.requests - 1]
        for turn in range(count if number == 0 else max(1, count // 4)):
            layer = turn * len(layers) // count if len(layers) > count else turn % len(layers)
            request = ends[turn] if turn < len(ends) else draw.randrange(batch.requests)
            found.append(Sample(number, layer, request, draw.randrange(layers[layer].heads)))
    return tuple(sorted(dict.fromkeys(found), key=lambda one: (one.batch, one.layer)))  # a layer runs once for its rows


def _probe(plan: Plan, widths: Widths, tokens: int, sequences: int) -> Probe:
    attention, experts, latent = widths.attention, widths.experts, widths.latent
    workspace = min(max(8 * plan.kv.max_model_len, 64 * sequences), 65_536)  # tokens, as the engine sizes it
    item = 4 if plan.engine_settings["dtype"] == "float32" else 2
    return Probe(
        tokens=tokens,
        sequences=min(sequences, tokens),
        hidden=widths.hidden,
        projected=attention.query + attention.key + attention.value if attention is not None else widths.hidden,
        mlp=max(widths.mlp, experts.shared if experts is not None else 0),
        per_token=experts.per_token if experts is not None else 0,
        expert=experts.width if experts is not None else 0,
        kept=experts is not None and experts.kept,
        expanded=latent.heads * (latent.nope + latent.value) if latent is not None else 0,
        expanded_tokens=workspace if latent is not None else 0,
        vocabulary=plan.model.vocab_size,
        item=item,
    )
