"""`--gpu local`: the card of this machine, as the NVIDIA library or torch tells it; no machine of the tests has one."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import kvplan
from kvplan import local_gpu
from kvplan.errors import NoGpu, UnknownGpu
from kvplan.hardware import find_gpu, parse_gpu
from kvplan.units import GIB, MIB

H100 = "NVIDIA H100 80GB HBM3"


class NvmlError(Exception):
    pass


class NotSupported(NvmlError):
    pass


def nvml(name=H100, *, total=81559 * MIB, used=0, count=1, **more):
    """Stand in for pynvml: one kind of card."""

    def memory(_handle, version=None):
        assert version == "v2"
        if total is None:
            raise NotSupported
        return SimpleNamespace(total=total, used=used)

    return SimpleNamespace(
        NVMLError=NvmlError,
        NVMLError_NotSupported=NotSupported,
        nvmlMemory_v2="v2",
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda _handle: name,
        nvmlDeviceGetMemoryInfo=memory,
        **more,
    )


def torch(name=H100, *, free=78 * GIB, total=79 * GIB, count=2, available=True):
    cuda = SimpleNamespace(
        is_available=lambda: available,
        mem_get_info=lambda _index: (free, total),
        get_device_name=lambda _index: name,
        device_count=lambda: count,
    )
    return SimpleNamespace(cuda=cuda)


@pytest.fixture
def machine(monkeypatch):
    """Set what this machine has installed; without a module, importing it fails."""

    def have(*, pynvml=None, torch=None, system="Linux", release="6.1.0"):
        monkeypatch.setitem(sys.modules, "pynvml", pynvml)
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setattr(local_gpu.platform, "system", lambda: system)
        monkeypatch.setattr(local_gpu.platform, "release", lambda: release)

    return have


def test_the_drivers_total_moves_the_catalogues(machine):
    known = find_gpu("h100-sxm")
    machine(pynvml=nvml(total=(known.smi_memory_mib - 10) * MIB, count=8))
    card, count = parse_gpu("local")
    assert (card.name, count) == ("h100-sxm", 8)
    assert card.memory_bytes == known.memory_bytes - 10 * MIB
    assert (card.memory_low, card.memory_high) == (card.memory_bytes - 10 * MIB, card.memory_bytes + 10 * MIB)
    assert card.assumed_among == ()


def test_what_other_processes_hold_is_missing_at_the_start(machine):
    machine(pynvml=nvml(used=30 * GIB))
    plan = kvplan.plan("meta-llama/Llama-3.1-8B", gpu="local", max_model_len=8192)
    assert [note.code for note in plan.reasons] == ["free_memory_below_request"]
    machine(pynvml=nvml(used=0))
    assert kvplan.plan("meta-llama/Llama-3.1-8B", gpu="local", max_model_len=8192).verdict == "fits"


def test_torch_where_the_library_is_not_there(machine):
    machine(torch=torch())
    card, count = parse_gpu(" LOCAL ")
    assert (card.name, card.memory_bytes, card.held_bytes, count) == ("h100-sxm", 79 * GIB, GIB, 2)
    assert card.memory_low == card.memory_high
    assert card.memory_basis == "measured"


@pytest.mark.parametrize("windows", [{"system": "Windows"}, {"release": "5.15.90.1-microsoft-standard-WSL2"}])
def test_windows_and_wsl_print_the_drivers_total(machine, windows):
    machine(pynvml=nvml("NVIDIA GeForce RTX 4090", total=24564 * MIB), **windows)
    card, _ = parse_gpu("local")
    assert card.memory_bytes == 24564 * MIB


def test_unified_memory_keeps_the_catalogues_range(machine):
    machine(pynvml=nvml("NVIDIA GB10", total=None))
    card, _ = parse_gpu("local")
    known = find_gpu("gb10")
    assert (card.memory_low, card.memory_high) == (known.memory_low, known.memory_high)
    assert card.held_bytes == 0


def test_an_older_library_gives_bytes(machine):
    machine(pynvml=nvml(H100.encode()))
    assert parse_gpu("local")[0].name == "h100-sxm"


@pytest.mark.parametrize(
    "modules",
    [{}, {"torch": torch(available=False)}, {"pynvml": nvml(count=0)}],
    ids=["nothing installed", "torch without a card", "a driver without a card"],
)
def test_no_card(machine, modules):
    machine(**modules)
    with pytest.raises(NoGpu) as caught:
        parse_gpu("local")
    assert "name one" in caught.value.hint


def test_a_driver_that_fails(machine):
    def fails():
        raise NvmlError("Driver/library version mismatch")

    library = nvml()
    library.nvmlDeviceGetCount = fails
    machine(pynvml=library)
    with pytest.raises(NoGpu, match="does not answer: Driver/library version mismatch"):
        parse_gpu("local")


def test_a_card_that_the_catalogue_does_not_have(machine):
    machine(pynvml=nvml("NVIDIA Unheard Of 9000"))
    with pytest.raises(UnknownGpu, match="Unheard Of"):
        parse_gpu("local")
