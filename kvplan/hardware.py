"""The card that a plan is made for: `find_gpu` and `parse_gpu` turn a name into a `Gpu` of the catalogue.

What an engine budgets from is the total that cudaMemGetInfo prints, which is below what nvidia-smi prints and far below
the number on the box. It moves by a few hundredths of a GiB with the driver, so a `Gpu` holds an interval around it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cache
from typing import Any

from kvplan import gpu_catalogue as catalogue
from kvplan.errors import UnknownGpu, UsageError, near
from kvplan.profile import plain
from kvplan.record import dataclass
from kvplan.units import GB, GIB, MIB

MAX_NAME = 200  # characters; the longest name in the catalogue has 59
MAX_COUNT_DIGITS = 5  # more than 99,999 cards is a typing error
_TIMES = re.compile(r"(.*?)(\s*)[x\u00d7]\s*([0-9]+)\s*", re.ASCII | re.DOTALL | re.IGNORECASE)
_DTYPES = ("bf16", "fp16", "fp8", "fp4")
_UNSURE = ("estimated", "recalled")
_SOURCED = {"bandwidth": "bandwidth_gb_s", "sm_count": "sm_count", "l2_mib": "l2_mib"}
_SOURCED |= {f"{dtype}_tflops": f"{dtype}_tflops" for dtype in _DTYPES}


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card of the catalogue. Memory in bytes, `bandwidth` in bytes per second, `tflops` dense and by dtype.

    `memory_bytes` is the total as cudaMemGetInfo and torch report it, between `memory_low` and `memory_high`: a logged
    figure ("measured") is good to half its last printed digit and to the readings of other drivers, an estimated one
    ("modelled") to the worst residual of its rule. `driver_name` is what the driver prints, empty where no name is
    known (TPU, Neuron). `start_loss_bytes` is the total minus the free memory at an engine's first snapshot on an idle
    card, between its low and high; where no log of the card shows it, the catalogue's median, and `start_loss_source`
    says so. `held_bytes` is what other processes hold of a card of this machine. `partition_of` names the card that
    this is a slice of (MIG), which no collective spans. `assumed_among` names the candidates where the name that was
    asked for fits several cards, this one first. `sources` says where the other figures come from.
    """

    name: str
    label: str
    vendor: str
    architecture: str
    driver_name: str
    compute_capability: tuple[int, int] | None
    memory_bytes: int
    memory_low: int
    memory_high: int
    memory_basis: str
    memory_source: str
    smi_memory_mib: int | None
    start_loss_bytes: int
    start_loss_source: str
    start_loss_low: int
    start_loss_high: int
    bandwidth: int | None
    tflops: Mapping[str, float] = field(hash=False)
    sm_count: int | None
    l2_mib: float | None
    unified_memory: bool
    assumed_among: tuple[str, ...] = ()
    held_bytes: int = 0
    partition_of: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def is_planned(self) -> bool:
        """Whether the rules of the engines' CUDA and ROCm workers hold; TPUs and others have workers of their own."""
        return self.vendor in ("nvidia", "amd")

    def is_sure(self, figure: str) -> bool:
        """Whether a figure with a source of its own (`bandwidth`, `bf16_tflops`, ...) is no estimate from memory."""
        return not self.sources.get(figure, "").startswith(_UNSURE)


def check_planned(card: Gpu) -> None:
    """Raise UnknownGpu where the engines run a worker on this card whose rules kvplan does not know."""
    if not card.is_planned:
        raise UnknownGpu(
            f"the engines' worker on {card.label} is not one that kvplan knows",
            "without a card the cache of a token and of a request is told",
        )


def find_gpu(name: str) -> Gpu:
    """Return the card that a name means; raise UnknownGpu, with near matches, where the catalogue has none.

    A profile name, a marketing name, what nvidia-smi prints, a Kubernetes label or an instance type will do. A name
    that fits several cards gives the catalogue's default, with the candidates in `assumed_among`.
    """
    _check_length(name)
    found = catalogue.lookup(name)
    if found is None:
        raise _unknown(name)
    return _gpu(found.card, found.among)


def parse_gpu(text: str) -> tuple[Gpu, int | None]:
    """Read `NAME`, `NAMExN` or `NAME x N` as a card and a count of cards, None where the text gives none.

    The whole text is tried as a name first (`rtx4090` is no 4,090 cards of `rt`). In `mi300x8` the x serves twice where
    NAME with it is a card too. An instance type brings its own count, and with xN that many times as many. `local` is
    the card of this machine. Raises UnknownGpu as `find_gpu` does, UsageError for a count that is no count, and NoGpu.
    """
    _check_length(text)
    if text.strip().casefold() == LOCAL:
        return local_gpu()
    found = catalogue.lookup(text)
    if found is not None:
        return _gpu(found.card, found.among), found.count
    times = _TIMES.fullmatch(text)
    if times is None:
        raise _unknown(text)
    base, blank, digits = times.groups()
    found = (None if blank else catalogue.lookup(f"{base}x")) or catalogue.lookup(base)
    if found is None:
        raise _unknown(text)
    if not digits.strip("0") or len(digits.lstrip("0")) > MAX_COUNT_DIGITS:
        hint = "write the name, x and how many cards: h100x8"
        raise UsageError(f"{text!r} asks for {'no' if not digits.strip('0') else 'too many'} cards", hint)
    return _gpu(found.card, found.among), int(digits) * (found.count or 1)


LOCAL = "local"


def local_gpu() -> tuple[Gpu, int]:
    """Return the card of this machine, with what its driver says in the catalogue's place, and how many there are.

    Raises NoGpu where no driver answers, and UnknownGpu for a card that the catalogue does not have.
    """
    from kvplan.local_gpu import local_card  # noqa: PLC0415  # nothing else asks a driver

    found = local_card()
    gpu = find_gpu(found.driver_name)
    if found.torch_bytes is not None:
        total, margin, source = found.torch_bytes, 0, "measured: cudaMemGetInfo"
    elif found.smi_bytes is not None and found.prints_whole:
        total, margin, source = found.smi_bytes, 0, "measured: the driver's total, which Windows and WSL print as it is"
    elif found.smi_bytes is not None and gpu.smi_memory_mib is not None:
        # the driver's own share moves with its version by as much as its total does
        difference = found.smi_bytes - gpu.smi_memory_mib * MIB
        total, margin = gpu.memory_bytes + difference, abs(difference)
        source = f"derived: {gpu.memory_source}, moved by this driver's total"
    else:
        return replace(gpu, assumed_among=(), held_bytes=found.held_bytes or 0), found.count
    return (
        replace(
            gpu,
            memory_bytes=total,
            memory_low=total - margin,
            memory_high=total + margin,
            memory_basis="measured",
            memory_source=source,
            held_bytes=found.held_bytes or 0,
            assumed_among=(),
        ),
        found.count,
    )


def gpu_names() -> list[str]:
    """Return every name of the catalogue, in the order of its files."""
    return list(catalogue.index().documents)


def gpus() -> list[Gpu]:
    """Return every card of the catalogue, in the order of its files."""
    return [_gpu(name, ()) for name in gpu_names()]


@cache
def _defaults() -> dict[str, Any]:
    return plain((catalogue.GPUS / "defaults.yaml").read_text(encoding="utf-8"))


def _gpu(name: str, among: tuple[str, ...]) -> Gpu:
    facts = catalogue.card(name)
    memory, low, high, basis, source = _memory(facts)
    drivers = facts.get("driver_names") or catalogue.card(facts.get("shares_name_with", name)).get("driver_names", [""])
    loss = facts.get("engine_start_loss_gib", _defaults()["engine_start_loss_gib"])
    log_precision = _defaults()["log_precision_gib"]["value"]
    return Gpu(
        name=name,
        label=facts["label"],
        vendor=facts["vendor"],
        architecture=facts["architecture"],
        driver_name=drivers[0],
        compute_capability=tuple(facts["compute_capability"]) if "compute_capability" in facts else None,
        memory_bytes=memory,
        memory_low=low,
        memory_high=high,
        memory_basis=basis,
        memory_source=source,
        smi_memory_mib=_value(facts, "smi_total_mib"),
        start_loss_bytes=round(loss["value"] * GIB),
        start_loss_source=loss["source"],
        start_loss_low=round(loss.get("low", loss["value"] - log_precision) * GIB),
        start_loss_high=round(loss.get("high", loss["value"] + log_precision) * GIB),
        bandwidth=round(facts["bandwidth_gb_s"]["value"] * GB) if "bandwidth_gb_s" in facts else None,
        tflops={dtype: facts[f"{dtype}_tflops"]["value"] for dtype in _DTYPES if f"{dtype}_tflops" in facts},
        sm_count=_value(facts, "sm_count"),
        l2_mib=_value(facts, "l2_mib"),
        unified_memory=facts.get("unified_memory", False),
        assumed_among=among,
        partition_of=facts.get("partition_of"),
        sources={name: facts[key]["source"] for name, key in _SOURCED.items() if key in facts},
    )


def _value(facts: Mapping[str, Any], key: str) -> Any:
    return facts[key]["value"] if key in facts else None


def _memory(facts: Mapping[str, Any]) -> tuple[int, int, int, str, str]:
    """Return the total, its interval, its basis and its source; profiles/gpus/defaults.yaml states the rule."""
    rule = _defaults()["torch_from_smi"]
    residual = rule["residual_mib"] * MIB
    if "torch_total_gib" not in facts:
        smi = facts["smi_total_mib"]
        total = round((smi["value"] - rule["base_mib"] - rule["per_smi_mib"] * smi["value"]) * MIB)
        source = f"estimated: rule torch_from_smi on {smi['value']} MiB ({smi['source']})"
        return total, total - residual, total + residual, "modelled", source
    figure = facts["torch_total_gib"]
    total = round(figure["value"] * GIB)
    low, high = (round(figure.get(end, figure["value"]) * GIB) for end in ("low", "high"))
    if figure["source"].startswith("log"):
        margin, basis = round(_defaults()["log_precision_gib"]["value"] * GIB), "measured"
    else:
        margin, basis = 0 if "low" in figure else residual, "modelled"
    return total, low - margin, high + margin, basis, figure["source"]


def _check_length(text: str) -> None:
    if len(text) > MAX_NAME:
        raise UnknownGpu(f"a GPU name of {len(text):,} characters: {text[:40]!r}...", _LIST)


_LIST = "`kvplan gpus` lists the catalogue"


def _unknown(text: str) -> UnknownGpu:
    """Say that no card is called so, and which ones nearly are."""
    known = catalogue.index().spellings
    guess = near(text.strip(), known)
    return UnknownGpu(f"unknown GPU {text!r}", f"{guess}; {_LIST}" if guess else _LIST)
