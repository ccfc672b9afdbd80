"""What verify asks of a card: memory, processes, allocations, work and a clock.

The steps of a verification know this protocol only. `torch_device` fulfils it on a GPU and in Triton's interpreter; the
tests bring a card made of integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from kvplan.verify.probe import Probe


class DeviceError(Exception):
    """The card said no: out of memory, or a kernel that failed. The message is one line."""


class Memory(NamedTuple):
    """Bytes, as cudaMemGetInfo reports them: under MIG those of the slice."""

    free: int
    total: int


class Process(NamedTuple):
    """A process on the card; `used` in bytes, None where the driver hides it (MIG, containers)."""

    pid: int
    used: int | None


class Timing(NamedTuple):
    """Seconds: the median of the repeats, and the distance of their quartiles."""

    seconds: float
    spread: float


@dataclass(frozen=True, slots=True)
class Facts:
    """The card as its driver describes it.

    `chip` is sm_90, gfx942 or interpreter; `held_bytes` what others held before this process touched the card, None
    where no driver tool says.
    """

    name: str
    chip: str
    capability: tuple[int, int] | None
    memory: Memory
    held_bytes: int | None
    software: str
    rehearsal: bool


@dataclass(frozen=True, slots=True)
class Attention:
    """How one layer's cache is decoded: `region` and `group` are indices into the pool.

    A page is [KV heads, `page` tokens, key and value side by side], `page_bytes` from the next one; head counts are of
    this rank. `latent`: the value is the first `value` dims of the key. `window` in tokens, `chunked` as
    kernels.reference says.
    """

    region: int
    group: int
    heads: int
    kv_heads: int
    key: int
    value: int
    latent: bool
    dtype: str
    page: int
    page_bytes: int
    window: int | None
    chunked: bool
    softcap: bool
    sinks: bool

    @property
    def row_bytes(self) -> int:
        """Bytes that a decode reads of one token, over this rank's KV heads."""
        width = self.key if self.latent else self.key + self.value
        return self.kv_heads * width * (1 if self.dtype.startswith("float8") else 2)

    def seen(self, length: int) -> int:
        """Return how many of a request's tokens the newest one attends to."""
        if self.window is None:
            return length
        return (length - 1) % self.window + 1 if self.chunked else min(length, self.window)


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests of one decode step: lengths and block ids, both by cache group and request."""

    lengths: tuple[tuple[int, ...], ...]
    blocks: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def requests(self) -> int:
        """The number of requests."""
        return len(self.lengths[0])


@dataclass(frozen=True, slots=True)
class Step:
    """One decode step of all decodable layers over filled buffers, one buffer a region."""

    layers: tuple[Attention, ...]
    batch: Batch
    buffers: tuple[int, ...]

    @property
    def read_bytes(self) -> int:
        """Bytes of cache that the step reads."""
        return sum(
            layer.row_bytes * layer.seen(length) for layer in self.layers for length in self.batch.lengths[layer.group]
        )

    @property
    def operations(self) -> int:
        """Floating-point operations: a multiply and an add for each query head, token and dim of key and value."""
        return sum(
            2 * layer.heads * (layer.key + layer.value) * layer.seen(length)
            for layer in self.layers
            for length in self.batch.lengths[layer.group]
        )


@dataclass(frozen=True, slots=True)
class Fill:
    """Write a buffer full of the hash of (`salt`, word), as numbers of `dtype`."""

    buffer: int
    dtype: str
    salt: int


@dataclass(frozen=True, slots=True)
class Check:
    """Read a buffer back; yields the number of words that are not what Fill left."""

    buffer: int
    dtype: str
    salt: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the first `size` bytes of a buffer to those of another."""

    source: int
    target: int
    size: int


@dataclass(frozen=True, slots=True)
class Warm:
    """Compile and launch every kernel of these steps on one page that stands for all, and open the libraries.

    `blocks` is the size of the real pool. Steps have no buffers yet.
    """

    steps: tuple[Step, ...]
    blocks: int


@dataclass(frozen=True, slots=True)
class Attend:
    """Run a step."""

    step: Step


@dataclass(frozen=True, slots=True)
class Row:
    """Compare one output row of a step with float64; yields its error. `salt` is that of the layer's buffer."""

    step: Step
    layer: int
    request: int
    head: int
    salt: int


@dataclass(frozen=True, slots=True)
class Peak:
    """Run the activation probe; yields the bytes that were alive at its peak, weights aside."""

    probe: Probe


@dataclass(frozen=True, slots=True)
class Multiply:
    """One large matrix product; yields its floating-point operations (clock it for the rate)."""

    size: int


@dataclass(frozen=True, slots=True)
class Tune:
    """Time several tilings of a step's layers and keep the fastest; yields the usual time over its time."""

    step: Step


Work: TypeAlias = Fill | Check | Copy | Warm | Attend | Row | Peak | Multiply | Tune


class Device(Protocol):
    """A card. Buffers are handles; every method may raise DeviceError."""

    def facts(self) -> Facts:
        """Describe the card; the first call opens it, and what that takes is the context."""

    def memory(self) -> Memory:
        """Return free and total bytes now."""

    def processes(self) -> tuple[Process, ...]:
        """Return the other processes on the card, as far as the driver shows them."""

    def allocate(self, size: int) -> int:
        """Allocate bytes as an engine does, and return a handle."""

    def release(self, buffer: int) -> None:
        """Give a buffer back to the driver."""

    def launch(self, work: Work) -> float:
        """Do a piece of work to its end, and return the figure that it yields (0 where it yields none)."""

    def clock(self, work: Work) -> Timing:
        """Time a piece of work: warmed up, in a captured graph where the card has them, repeated."""


class Factory(Protocol):
    """Makes a card in the child; an importable object, since it travels there by pickle."""

    def open(self) -> Device:
        """Return the card; called in the child. Raises errors.NoGpu where there is none that can be used."""

    def used(self) -> int | None:
        """Return the bytes in use on the card, whoever uses them; called in the parent, None where no tool says."""
