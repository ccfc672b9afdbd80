"""The tensors that a checkpoint stores, by the headers of its files: of a folder, or of a repository on the Hub.

Nothing but headers is read: of a repository by ranges, broken off where a server does not know them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection
from pathlib import Path
from typing import BinaryIO, TypeAlias

from kvplan.errors import UnreadableInput
from kvplan.sources.document import open_at_once, parse_object, read_object, reason, shown
from kvplan.sources.headers import LENGTH_BYTES, Headers, gather, header_length, parse_header

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_MAX_FILES = 2000  # the most shards of a public checkpoint are 191
_PLAIN_NAME = re.compile(r"(?!\.)[\w.+ -]{1,200}\.safetensors", re.ASCII)
_Entries: TypeAlias = dict[str, tuple[str, tuple[int, ...], int]]
# reads so many bytes of a file from an offset on, and tells the file's size
Read: TypeAlias = Callable[[int, int], tuple[bytes, int]]
_FIRST = 256 * 1024  # most headers fit


def stored_in(folder: Path) -> Headers | None:
    """Return the tensors of a folder's files, None where it has no safetensors; raises UnreadableInput."""
    name = shown(str(folder))
    try:
        present = {entry for entry in os.listdir(folder) if entry.endswith(".safetensors")}  # noqa: PTH208  # names
    except OSError as error:
        raise UnreadableInput(f"cannot read {name}: {reason(error)}", "give a folder that can be read") from error
    if (folder / INDEX).is_file():
        wanted = shards(read_object(folder / INDEX), f"{INDEX} of {name}")
        if wanted - present:
            raise missing(wanted - present, name)
    else:
        wanted = {SINGLE} & present or present
    return gather((_local(folder / file) for file in sorted(wanted)), name) if wanted else None


def shards(index: dict[str, object], name: str) -> set[str]:
    """Return the files that an index names; raises UnreadableInput where a name leads elsewhere."""
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise UnreadableInput(f"{name} has no weight_map", "is the download whole?")
    files = set(weight_map.values()) if all(isinstance(file, str) for file in weight_map.values()) else {""}
    odd = next((file for file in files if _PLAIN_NAME.fullmatch(file) is None), None)
    if odd is not None:
        raise UnreadableInput(f"{name} names {shown(odd) or 'something'} as a file of tensors", "is it damaged?")
    if len(files) > _MAX_FILES:
        raise UnreadableInput(f"{name} names {len(files):,} files", "is it damaged?")
    return files


def read_header(read: Read, name: str) -> _Entries:
    """Return the entries of one file, in as many reads as its header takes: mostly one."""
    first, size = read(0, _FIRST)
    length = header_length(first, size, name)
    header = first[LENGTH_BYTES : LENGTH_BYTES + length]
    if len(header) < length:
        rest, _ = read(LENGTH_BYTES + len(header), length - len(header))
        header += rest
    if len(header) < length:
        raise UnreadableInput(f"{name} stops within its header", "is the download whole?")
    return parse_header(header, size, name)


def parse_index(data: bytes, name: str) -> set[str]:
    """Return the files that the bytes of an index name."""
    return shards(parse_object(data, name), name)


def missing(files: Collection[str], name: str) -> UnreadableInput:
    """Say that an index names files that are not there."""
    some = ", ".join(shown(file) for file in sorted(files)[:3])
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return UnreadableInput(f"{INDEX} of {name} names files that are not there: {some}{more}", "is the download whole?")


def _local(path: Path) -> _Entries:
    name = shown(str(path))
    try:
        with open(path, "rb", opener=open_at_once) as file:  # Path.open takes no opener
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableInput(f"{name} is not a regular file", "give a folder of a downloaded checkpoint")
            return read_header(lambda start, count: (_at(file, start, count), status.st_size), name)
    except OSError as error:
        raise UnreadableInput(f"cannot read {name}: {reason(error)}", "give a file that can be read") from error


def _at(file: BinaryIO, start: int, count: int) -> bytes:
    file.seek(start)
    return file.read(count)
