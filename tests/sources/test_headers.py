"""safetensors headers of a stranger: read, or refused in one line; nothing that they claim is believed."""

from __future__ import annotations

import json
import struct

import pytest

from kvplan.errors import UnreadableInput
from kvplan.sources.headers import gather, header_length, parse_header
from kvplan.sources.stored import INDEX, stored_in


def header_of(entries) -> bytes:
    return entries if isinstance(entries, bytes) else json.dumps(entries).encode()


def file_of(entries, size: int | None = None, length: int | None = None) -> bytes:
    """Return a file: its header, and `size` bytes of data (default: as many as the offsets say)."""
    header = header_of(entries)
    if size is None:
        ends = [0]
        for entry in entries.values() if isinstance(entries, dict) else ():
            ends += entry.get("data_offsets", [0, 0])[1:] if isinstance(entry, dict) else []
        size = max(ends)
    return struct.pack("<Q", len(header) if length is None else length) + header + b"\0" * size


def tensor(dtype: str, shape: list[int], start: int, end: int) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


GOOD = {
    "__metadata__": {"format": "pt"},
    "model.layers.0.mlp.up.weight": tensor("BF16", [4, 8], 0, 64),
    "model.layers.1.mlp.up.weight": tensor("BF16", [4, 8], 64, 128),
    "model.norm.weight": tensor("F32", [8], 128, 160),
    "scalar": tensor("F8_E4M3", [], 160, 161),
    "empty": tensor("I64", [0], 161, 161),
    "packed": tensor("F4", [2, 8], 161, 169),
}


def parsed(data: bytes):
    length = header_length(data[:8], len(data), "x")
    return parse_header(data[8 : 8 + length], len(data), "x")


def test_a_header_is_read():
    assert parsed(file_of(GOOD))["model.norm.weight"] == ("float32", (8,), 32)
    found = gather([parsed(file_of(GOOD))], "x")
    assert {(t.name, t.dtype, t.shape, t.count) for t in found.tensors} == {
        ("model.layers.{}.mlp.up.weight", "bfloat16", (4, 8), 2),
        ("model.norm.weight", "float32", (8,), 1),
        ("scalar", "float8_e4m3fn", (), 1),
        ("empty", "int64", (0,), 1),
        ("packed", "float4", (2, 8), 1),
    }
    assert found.total_bytes == 169


ONE = {"a": tensor("BF16", [2], 0, 4)}
LIES = [
    ("is shorter", b"\1\0\0"),
    ("claims 1,152,921,504,606,846,976 bytes", file_of(ONE, length=2**60)),
    ("claims 200,000,000 bytes", file_of(ONE, length=200_000_000)),
    ("claims 5,000 bytes, the file has", file_of(ONE, length=5000)),
    ("ends at byte 400 of 4", file_of({"a": tensor("BF16", [200], 0, 400)}, size=4)),
    ("overlap", file_of({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 3, 7)})),
    ("unknown dtype Q3", file_of({"a": tensor("Q3", [2], 0, 4)})),
    ("unknown dtype '\\x1b[31m'", file_of({"a": tensor("\x1b[31m", [2], 0, 4)})),
    ("two entries a", file_of(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":1}')),
    ("offsets of a are not those of its shape", file_of({"a": tensor("BF16", [2], 0, 5)}, size=5)),
    ("offsets of a are not those of its shape", file_of({"a": tensor("BF16", [2], 4, 0)}, size=5)),
    ("offsets of a are not those of its shape", file_of({"a": tensor("U8", [1] * 40, 0, 1)})),
    ("entry of a is incomplete", file_of({"a": tensor("BF16", [-2], 0, 4)}, size=4)),
    ("entry of a is incomplete", file_of({"a": tensor("BF16", [2.5], 0, 5)}, size=5)),
    ("entry of a is incomplete", file_of({"a": tensor("BF16", [True], 0, 2)}, size=2)),
    ("entry of a is incomplete", file_of({"a": {"dtype": "BF16"}})),
    ("entry of a is incomplete", file_of({"a": None})),
    ("no JSON object", file_of(b"[]")),
    ("is not JSON", file_of(b"{")),
    ("is not JSON", file_of(b"\xff\xfe")),
    ("is not JSON", file_of(b"[" * 100_000)),
    ("is not JSON", file_of(b'{"a":' + b"9" * 5000 + b"}")),
]


@pytest.mark.parametrize(("says", "data"), LIES, ids=[f"{says[:30]} {i}" for i, (says, _) in enumerate(LIES)])
def test_a_header_that_lies_is_refused_in_one_line(says, data, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(UnreadableInput) as caught:
        stored_in(tmp_path)
    assert says in caught.value.message
    assert caught.value.message.isprintable()
    assert caught.value.exit_code == 2


def test_the_same_tensor_in_two_files_is_refused():
    with pytest.raises(UnreadableInput, match="two files hold a"):
        gather([parsed(file_of(ONE)), parsed(file_of(ONE))], "x")


# -- folders ----------------------------------------------------------------------------------------------------------


def shard(folder, name: str, **tensors) -> None:
    (folder / name).write_bytes(file_of(tensors))


def index(folder, weight_map) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 8}, "weight_map": weight_map}))


def test_shards_are_those_that_the_index_names(tmp_path):
    shard(tmp_path, "model-00001-of-00002.safetensors", a=tensor("U8", [4], 0, 4))
    shard(tmp_path, "model-00002-of-00002.safetensors", b=tensor("U8", [4], 0, 4))
    shard(tmp_path, "consolidated.safetensors", c=tensor("U8", [4], 0, 4))
    index(tmp_path, {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"})
    found = stored_in(tmp_path)
    assert (found.files, found.total_bytes, {t.name for t in found.tensors}) == (2, 8, {"a", "b"})


def test_without_an_index_the_single_file_comes_first(tmp_path):
    shard(tmp_path, "consolidated.safetensors", c=tensor("U8", [4], 0, 4))
    assert [t.name for t in stored_in(tmp_path).tensors] == ["c"]
    shard(tmp_path, "model.safetensors", a=tensor("U8", [4], 0, 4))
    assert [t.name for t in stored_in(tmp_path).tensors] == ["a"]


def test_a_folder_with_other_weights_or_none_stores_nothing_that_is_read(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80")
    assert stored_in(tmp_path) is None


@pytest.mark.parametrize(
    ("weight_map", "says"),
    [
        ({"a": "model-1.safetensors", "b": "model-2.safetensors"}, "names files that are not there: model-1"),
        ({"a": "../../etc/passwd"}, "names ../../etc/passwd as a file of tensors"),
        ({"a": "/etc/x.safetensors"}, "names /etc/x.safetensors as a file of tensors"),
        ({"a": "x\n.safetensors"}, "as a file of tensors"),
        ({"a": 5}, "as a file of tensors"),
        ({}, "has no weight_map"),
        (None, "has no weight_map"),
        ({str(i): f"m{i}.safetensors" for i in range(3000)}, "names 3,000 files"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_an_index_that_lies_is_refused_in_one_line(weight_map, says, tmp_path):
    index(tmp_path, weight_map)
    with pytest.raises(UnreadableInput) as caught:
        stored_in(tmp_path)
    assert says in caught.value.message
    assert caught.value.message.isprintable()


def test_a_file_that_is_no_file_is_refused(tmp_path):
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(UnreadableInput, match=r"cannot read|not a regular file"):
        stored_in(tmp_path)


def test_only_the_header_is_read(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_of({"a": tensor("U8", [2**40], 0, 2**40)}, size=0))
    with path.open("ab") as file:
        file.truncate(path.stat().st_size + 2**40)  # a file with a hole of a terabyte
    assert stored_in(tmp_path).total_bytes == 2**40
