"""What a safetensors file says of itself: the names, dtypes and shapes of its tensors, and where their data lie.

The format: eight bytes with the length of a JSON header, the header, the data. Everything in it is a stranger's:
lengths, offsets and names are held against the file before they are believed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from math import prod
from typing import Any

from kvplan.errors import UnreadableInput
from kvplan.record import dataclass
from kvplan.sources.document import shown

LENGTH_BYTES = 8
LONGEST = 100_000_000  # the format's own limit; the longest header of a public checkpoint has a few megabytes
MAX_TENSORS = 1_000_000  # Kimi-K2 has 140,000
_MAX_DIMENSIONS = 16
# bits of an element, and the dtype's name
DTYPES = {
    "BOOL": (8, "bool"), "U8": (8, "uint8"), "I8": (8, "int8"), "F8_E4M3": (8, "float8_e4m3fn"),
    "F8_E5M2": (8, "float8_e5m2"), "F8_E8M0": (8, "float8_e8m0fnu"), "F4": (4, "float4"), "F6_E2M3": (6, "float6"),
    "F6_E3M2": (6, "float6"), "I16": (16, "int16"), "U16": (16, "uint16"), "F16": (16, "float16"),
    "BF16": (16, "bfloat16"), "I32": (32, "int32"), "U32": (32, "uint32"), "F32": (32, "float32"),
    "I64": (64, "int64"), "U64": (64, "uint64"), "F64": (64, "float64"), "C64": (64, "complex64"),
}  # fmt: skip
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclass(frozen=True, slots=True)
class Stored:
    """All tensors of a checkpoint that differ in nothing but the numbers in their names, which `{}` stands for."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class Headers:
    """The tensors of all files of a checkpoint."""

    tensors: tuple[Stored, ...]
    files: int

    @property
    def total_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.bytes * tensor.count for tensor in self.tensors)


def header_length(first: bytes, file_size: int, name: str) -> int:
    """Return the length of the header from a file's first bytes; raises UnreadableInput where it cannot be."""
    if len(first) < LENGTH_BYTES:
        raise broken(name, "it is shorter than the length of a header")
    length = int.from_bytes(first[:LENGTH_BYTES], "little")
    if length > LONGEST:
        raise broken(name, f"its header claims {length:,} bytes")
    if LENGTH_BYTES + length > file_size:
        raise broken(name, f"its header claims {length:,} bytes, the file has {file_size:,}")
    return length


def parse_header(header: bytes, file_size: int, name: str) -> dict[str, tuple[str, tuple[int, ...], int]]:
    """Return dtype, shape and bytes by tensor; raises UnreadableInput for a header that lies."""
    try:
        entries = json.loads(header.decode("utf-8"), object_pairs_hook=_unrepeated)
    except _Repeated as error:
        raise broken(name, f"its header has two entries {shown(str(error))}") from None
    except (ValueError, RecursionError, MemoryError):  # ValueError: not UTF-8, not JSON, an endless integer
        raise broken(name, "its header is not JSON") from None
    if not isinstance(entries, dict):
        raise broken(name, "its header is no JSON object")
    if len(entries) > MAX_TENSORS:
        raise broken(name, f"its header has {len(entries):,} entries")
    data_size = file_size - LENGTH_BYTES - len(header)
    found: dict[str, tuple[str, tuple[int, ...], int]] = {}
    spans: list[tuple[int, int, str]] = []
    for tensor, entry in entries.items():
        if tensor == "__metadata__":
            continue
        dtype, shape, start, end = _entry(entry, tensor, name)
        if end > data_size:
            raise broken(name, f"{shown(tensor)} ends at byte {end:,} of {data_size:,}")
        found[tensor] = (dtype, shape, end - start)
        spans.append((start, end, tensor))
    last, before = 0, ""
    for start, end, tensor in sorted(spans):
        if start < last:
            raise broken(name, f"{shown(before)} and {shown(tensor)} overlap")
        last, before = end, tensor
    return found


def gather(files: Iterable[dict[str, tuple[str, tuple[int, ...], int]]], name: str) -> Headers:
    """Return the tensors of several files as one list; raises UnreadableInput where two files hold the same one."""
    seen: set[str] = set()
    counts: Counter[tuple[str, str, tuple[int, ...], int]] = Counter()
    number = 0
    for tensors in files:
        number += 1
        for tensor, (dtype, shape, size) in tensors.items():
            if tensor in seen:
                raise broken(name, f"two files hold {shown(tensor)}")
            seen.add(tensor)
            counts[_NUMBER.sub("{}", tensor), dtype, shape, size] += 1
        if len(seen) > MAX_TENSORS:
            raise broken(name, f"it has more than {MAX_TENSORS:,} tensors")
    return Headers(tuple(Stored(*key, count) for key, count in counts.items()), number)


def broken(name: str, why: str) -> UnreadableInput:
    """Say that a file is no safetensors file."""
    return UnreadableInput(f"{name} is not a safetensors file: {why}", "is the download whole?")


class _Repeated(Exception):  # caught where it is raised from
    pass


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Repeated(next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1))
    return found


def _entry(entry: object, tensor: str, name: str) -> tuple[str, tuple[int, ...], int, int]:
    """Return dtype, shape, start and end of one entry, whose offsets agree with its shape."""
    match entry:
        case {"dtype": str(code), "shape": list(shape), "data_offsets": [int(start), int(end)]} if all(
            type(size) is int and size >= 0 for size in shape
        ):
            if code not in DTYPES:
                raise broken(name, f"{shown(tensor)} is of an unknown dtype {shown(code)}")
            bits, dtype = DTYPES[code]
            if len(shape) > _MAX_DIMENSIONS or not 0 <= start <= end or (end - start) * 8 != prod(shape) * bits:
                raise broken(name, f"the offsets of {shown(tensor)} are not those of its shape")
            return dtype, tuple(shape), start, end
        case _:
            raise broken(name, f"the entry of {shown(tensor)} is incomplete")
