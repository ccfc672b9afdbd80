from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import UsageError
from kvplan.units import GB, GIB, KIB, MIB, binary, gib, parse_bandwidth, parse_bytes, quantity


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80 GB", 80 * GB),
        ("80GiB", 80 * GIB),
        ("79.19 GiB", 85_029_615_043),
        (" 1.5 mib ", 3 * MIB // 2),
        ("0 B", 0),
        ("0.5 B", 1),  # half up
        ("1024 KiB", MIB),
    ],
)
def test_sizes_are_read_with_their_unit(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["80", "", "GiB", "-1 GiB", "1e3 GB", "80 G", "80 GiB GiB", "nan GB", "٣ GB", "9" * 30 + " B"]
)
def test_a_size_without_a_unit_is_refused(text):
    with pytest.raises(UsageError, match="is not a size with a unit"):
        parse_bytes(text, "--gpu-memory")


def test_a_bandwidth_is_above_zero():
    assert [parse_bandwidth(text) for text in ("2.9 TB/s", " 2.9TB/s ", "2.9 TB")] == [2_900 * GB] * 3
    for text in ("0 TB/s", "0.0 B/s", "0.4 B/s"):
        with pytest.raises(UsageError, match=r"--bandwidth: .* is no bandwidth"):
            parse_bandwidth(text)


def test_units_are_written_and_labelled():
    assert binary(131_072) == "128 KiB"
    assert binary(70_272) == "68.625 KiB"
    assert binary(512) == "512 B"
    assert gib(3 * GIB // 2) == "1.5 GiB"
    assert quantity(1_234_567.5, 0) == "1,234,568"
    assert quantity(0.125, 2) == "0.13"  # half up, not to even


@given(st.integers(0, 2**50))
def test_what_is_written_in_bytes_reads_back(size):
    assert parse_bytes(f"{size} B") == size
    assert parse_bytes(f"{size // KIB} KiB") == size // KIB * KIB
