"""The verification itself, step by step on a device: what is held, what is measured, in the order of an engine's start.

Kernels are compiled and launched once before the pool is taken, because the first failure at a high utilisation is
usually a lazily loaded module or library, after the pool. Everything stays allocated to the end, so that what is left
of the card is what an engine would see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from kvplan.units import MIB
from kvplan.verify.device import (
    Attend,
    Check,
    Copy,
    Device,
    Facts,
    Fill,
    Multiply,
    Peak,
    Process,
    Row,
    Step,
    Timing,
    Tune,
    Warm,
)
from kvplan.verify.order import Order

Report: TypeAlias = Callable[[str, float], None]  # the step's name, and how much of it is done
STREAM = 256 * MIB  # what a copy is timed on at least: several times the largest L2 cache
MATRIX = 8192  # a product of this size runs at a card's full rate for some milliseconds


class Busy(Exception):
    """The card has less free memory than the budget asks for; the message has both figures."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """One decode step: its time, what it read, and the time that the measured bandwidths leave no choice about."""

    requests: int
    longest: int
    read_bytes: int
    timing: Timing
    roofline: float


@dataclass(slots=True)
class Measured:
    """What was seen on the card, in bytes and seconds; filled in step by step."""

    facts: Facts
    others: int = 0
    context: int = 0
    ballast: dict[str, int] = field(default_factory=dict)
    activations: int = 0
    pool: int = 0
    wrong_words: int = 0
    filled_bytes: int = 0
    read_bandwidth: float = 0.0
    copy_bandwidth: float = 0.0
    decoded: list[Decoded] = field(default_factory=list)
    rows: list[float] = field(default_factory=list)
    grown: int = 0
    remaining: int = 0
    tuned: float = 1.0
    companions: tuple[Process, ...] = ()


def run(device: Device, order: Order, report: Report) -> Measured:
    """Carry out an order; raises Busy, and DeviceError from the device."""
    seen = _open(device, order, report)
    gone = seen.others + seen.context
    held = _hold_ballast(device, order, seen, report)
    held += _probe_activations(device, order, seen, report)
    buffers, pool = _take_pool(device, order, seen, report)
    _fill(device, order, buffers, seen, report)
    _bandwidths(device, order, buffers, seen, report)
    steps = [Step(order.layers, batch, buffers) for batch in order.batches]
    if order.tune and steps:
        report("tune", 0.0)
        seen.tuned = device.launch(Tune(steps[0]))
    _decode(device, steps, seen, report)
    _compare(device, order, steps, seen, report)
    memory = device.memory()
    seen.remaining = memory.free
    seen.grown = memory.total - memory.free - gone - held - pool
    return seen


def _open(device: Device, order: Order, report: Report) -> Measured:
    """Open the card and the libraries, as an engine does before its first look at the free memory."""
    report("context", 0.0)
    seen = Measured(device.facts())
    device.launch(Warm(tuple(Step(order.layers, batch, ()) for batch in order.batches), order.blocks))
    memory = device.memory()
    gone = memory.total - memory.free
    seen.others = min(gone, seen.facts.held_bytes or 0)
    seen.context = gone - seen.others
    seen.companions = device.processes()
    if memory.free < order.requested:
        raise Busy(f"{memory.free / 2**30:.1f} GiB are free, and the plan asks for {order.requested / 2**30:.1f}")
    return seen


def _taken(device: Device, size: int) -> tuple[int, int]:
    """Allocate, and return the handle with what the driver's free memory fell by."""
    before = device.memory().free
    buffer = device.allocate(size)
    return buffer, before - device.memory().free


def _hold_ballast(device: Device, order: Order, seen: Measured, report: Report) -> int:
    for number, (name, size) in enumerate(order.ballast):
        report("ballast", number / len(order.ballast))
        seen.ballast[name] = _taken(device, size)[1]
    return sum(seen.ballast.values())


def _probe_activations(device: Device, order: Order, seen: Measured, report: Report) -> int:
    """Measure the peak, then hold as much, as the engine keeps it free for every later step."""
    report("activations", 0.0)
    seen.activations = int(device.launch(Peak(order.probe)))
    return _taken(device, seen.activations)[1]


def _take_pool(device: Device, order: Order, seen: Measured, report: Report) -> tuple[tuple[int, ...], int]:
    buffers = []
    for number, size in enumerate(order.regions):
        report("pool", number / len(order.regions))
        buffer, taken = _taken(device, size)
        buffers.append(buffer)
        seen.pool += taken
    if order.rest:
        seen.pool += _taken(device, order.rest)[1]
    return tuple(buffers), seen.pool


def _fill(device: Device, order: Order, buffers: tuple[int, ...], seen: Measured, report: Report) -> None:
    """Fill all regions, then read all back: a region that shares memory with another would by then hold the other's."""
    for salt, buffer in enumerate(buffers):
        report("fill", salt / len(buffers))
        device.launch(Fill(buffer, order.dtype, salt))
    for salt, buffer in enumerate(buffers):
        report("read back", salt / len(buffers))
        seen.wrong_words += int(device.launch(Check(buffer, order.dtype, salt)))
    seen.filled_bytes = sum(order.regions)


def _bandwidths(device: Device, order: Order, buffers: tuple[int, ...], seen: Measured, report: Report) -> None:
    """Time the read-back of the largest region, and a copy inside the activations' room."""
    report("bandwidth", 0.0)
    largest = max(range(len(buffers)), key=lambda i: order.regions[i])
    seconds = device.clock(Check(buffers[largest], order.dtype, largest)).seconds
    seen.read_bandwidth = order.regions[largest] / seconds
    report("bandwidth", 0.5)
    free = device.memory().free
    size = min(order.regions[largest], max(STREAM, seen.activations // 2), free // 4)
    source, target = device.allocate(size), device.allocate(size)
    seen.copy_bandwidth = 2 * size / device.clock(Copy(source, target, size)).seconds
    device.release(source)
    device.release(target)


def _decode(device: Device, steps: list[Step], seen: Measured, report: Report) -> None:
    rate = 0.0
    if any(layer.latent for step in steps for layer in step.layers):
        # only latent attention does enough arithmetic a byte to be held back by it
        product = Multiply(MATRIX if not seen.facts.rehearsal else 64)
        operations = device.launch(product)
        rate = operations / device.clock(product).seconds
    for number, step in enumerate(steps):
        report("decode", number / len(steps))
        timing = device.clock(Attend(step))
        roofline = max(step.read_bytes / seen.read_bandwidth, step.operations / rate if rate else 0.0)
        longest = max(max(row) for row in step.batch.lengths)
        seen.decoded.append(Decoded(step.batch.requests, longest, step.read_bytes, timing, roofline))


def _compare(device: Device, order: Order, steps: list[Step], seen: Measured, report: Report) -> None:
    for number, sample in enumerate(order.samples):
        report("numerics", number / len(order.samples))
        step = steps[sample.batch]
        salt = step.layers[sample.layer].region
        seen.rows.append(device.launch(Row(step, sample.layer, sample.request, sample.head, salt)))
