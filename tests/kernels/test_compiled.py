"""What compilers make of the kernels on chips that are not here: spills, load widths, registers, shared memory.

All compilations run once, in two processes (compiled.py); then each chip is judged by what Triton's own disassembler
printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the kernels need the extra: pip install '.[gpu]'")
triton = pytest.importorskip("triton", reason="the kernels need the extra: pip install '.[gpu]'")

from decode_variants import VARIANTS

WORKERS = 2
# All six take 1 min 50 s of two idle cores; on busy ones KVPLAN_CHIPS="sm_90 gfx942" takes a third of it
CHIPS = tuple(os.environ.get("KVPLAN_CHIPS", "sm_80 sm_89 sm_90 sm_100 sm_120 gfx942").split())
NVIDIA = tuple(chip for chip in CHIPS if chip.startswith("sm_"))
OTHERS = ("fill", "check", "copy", "combine", "write half", "write e4m3", "write e5m2")

# Bytes of shared memory that one program may take (CUDA programming guide, compute capabilities; CDNA3 ISA guide)
SHARED = {"sm_80": 166_912, "sm_89": 101_376, "sm_90": 232_448, "sm_100": 232_448, "sm_120": 101_376, "gfx942": 65_536}
# 32-bit registers of a multiprocessor or compute unit
REGISTERS = {"nvidia": 65_536, "gfx942": 131_072}

# Loads and stores of spilled values, by Triton release. ptxas gives up a few of them for one more resident program (it
# stops at 72, 96, 128 or 168 registers): a handful, outside of the loop over tokens.
SPILLS = {
    "3.6": {
        ("sm_80", "128 x4 e4m3"): 2,
        ("sm_80", "192 x4 fp16"): 4,
        ("sm_80", "256 x4 e5m2"): 4,
        ("sm_80", "512 x32 fp16"): 8,
        ("sm_80", "mla x16 bf16"): 10,
        ("sm_89", "80 x1 e5m2"): 4,
    },
    "3.9": {
        ("sm_80", "96 x32 fp16"): 2,
        ("sm_89", "mla x16 bf16"): 4,
        ("sm_90", "128 x32 bf16"): 6,
        ("sm_90", "mla x16 fp16"): 4,
        ("sm_100", "mla x16 fp16"): 4,
        ("sm_120", "mla x16 bf16"): 12,
        ("sm_120", "mla x16 fp16"): 8,
    },
}
# The bound on registers, as the programs that a multiprocessor must have room for: (NVIDIA, gfx942) by row
RESIDENT = {
    "64": (3, 2), "80": (5, 4), "96": (5, 4), "128": (2, 1), "192": (3, 3), "192/128": (4, 3), "256": (2, 1),
    "512": (1, 1), "mla": (1, 1),
}  # fmt: skip
# gfx942 has 256 threads in four warps: a run of few words has less than 16 bytes for each of them
GFX942_NARROW = {"80", "96", "192", "192/128", "mla"}


@pytest.fixture(scope="module")
def results():
    """Every compilation's figures by (chip, name)."""
    here = Path(__file__).parent
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    workers = [
        subprocess.Popen(
            [sys.executable, here / "compiled.py", str(part), str(WORKERS), *CHIPS],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here, env=environment,
        )
        for part in range(WORKERS)
    ]  # fmt: skip
    found = {}
    for worker in workers:
        out, err = worker.communicate(timeout=900)
        assert worker.returncode == 0, err[-2000:]
        for line in out.splitlines():
            row = json.loads(line)
            found[row["target"], row["name"]] = row
    return found


def test_list_covers_each_pair_of_axes():
    axes = [variant.axes() for variant in VARIANTS.values()]
    for one, other in combinations(axes[0], 2):
        seen = {(row[one], row[other]) for row in axes}
        possible = {(a[one], b[other]) for a in axes for b in axes}
        if {one, other} == {"row", "group"}:  # groups of 16 and 128 are MLA's, the others everyone else's
            possible = {(row, group) for row, group in possible if (row == "mla") == (group in (16, 128))}
        assert seen == possible, f"{one} x {other} lacks {possible - seen}"


@pytest.mark.parametrize("chip", CHIPS)
def test_everything_compiles(results, chip):
    assert {name for target, name in results if target == chip} == {*VARIANTS, *OTHERS}


@pytest.mark.parametrize("chip", CHIPS)
def test_no_spills_but_those_listed(results, chip):
    release = triton.__version__.rpartition(".")[0]
    if release not in SPILLS:
        pytest.skip(f"no list for triton {release}: it has another ptxas than {' and '.join(SPILLS)}")
    for name in (*VARIANTS, *OTHERS):
        assert results[chip, name]["spills"] <= SPILLS[release].get((chip, name), 0), name


@pytest.mark.parametrize("chip", CHIPS)
def test_shared_memory_fits(results, chip):
    for name in (*VARIANTS, *OTHERS):
        assert results[chip, name]["shared"] <= SHARED[chip], name


@pytest.mark.parametrize("chip", NVIDIA)
def test_cache_loads_are_128_bits_wide(results, chip):
    """Every asynchronous copy takes 16 bytes, or is one 4-byte page id; nothing of the cache comes by bytes."""
    for name in VARIANTS:
        widths = results[chip, name]["widths"]
        copies = {kind: count for kind, count in widths.items() if kind.startswith("LDGSTS")}
        assert set(copies) <= {"LDGSTS 128", "LDGSTS 32"}, (name, copies)
        assert copies["LDGSTS 128"] >= 8, (name, copies)


def test_cache_loads_of_gfx942(results):
    for name, variant in VARIANTS.items():
        widths = results["gfx942", name]["widths"]
        narrow = widths.get("load 64", 0)
        allowed = 24 if variant.row in GFX942_NARROW else 1  # 1: the query
        assert narrow <= allowed, (name, widths)
        assert widths.get("load 128", 0) >= 5 or variant.row in GFX942_NARROW, (name, widths)


@pytest.mark.parametrize("chip", CHIPS)
def test_registers_leave_room_for_enough_programs(results, chip):
    amd = chip == "gfx942"
    for name, variant in VARIANTS.items():
        row = results[chip, name]
        threads = row["warps"] * (64 if amd else 32)
        programs = REGISTERS["gfx942" if amd else "nvidia"] // (row["registers"] * threads)
        assert programs >= RESIDENT[variant.row][amd], (name, row["registers"])


@pytest.mark.parametrize("chip", NVIDIA)
@pytest.mark.parametrize(
    ("name", "accesses"),
    [("fill", ("STG",)), ("check", ("LDG",)), ("copy", ("STG",)), ("write half", ("STG",)), ("write e4m3", ("STG",))],
)
def test_streams_are_128_bits_wide(results, chip, name, accesses):
    widths = results[chip, name]["widths"]
    for access in accesses:
        assert {kind for kind in widths if kind.startswith(f"{access} ")} == {f"{access} 128"}, widths
