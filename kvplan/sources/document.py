"""One JSON file of a stranger: bounded in size and depth, never executed, never waited for.

config.json of the public checkpoints is 0.5 KB to 3 MB, the large ones by per-layer quantization tables. A file above
`LIMIT` is none of them.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any

from kvplan.errors import UnreadableInput
from kvplan.units import MIB, binary

LIMIT = 32 * MIB
DEPTH = 100  # the deepest public config nests 7 levels; what is walked later must not meet Python's limit of 1000
_SHOWN = 200  # characters of a stranger's text in one message
_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)


def shown(text: str) -> str:
    """Return text that fits one line of a terminal: escaped where it would steer the terminal, cut where it is long."""
    line = text if text.isprintable() else ascii(text)
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def read_object(path: str | Path, name: str = "") -> dict[str, Any]:
    """Read a file that must hold one JSON object; `name` is what errors call it (default: the path).

    NaN and Infinity are read, as Python's own writer (and so the Hub) has them; of a repeated key the last one counts.
    Raises UnreadableInput for all that is not a regular UTF-8 file of at most `LIMIT` bytes with an object in it.
    """
    name = name or shown(str(path))
    try:
        with open(path, "rb", opener=open_at_once) as file:  # Path.open takes no opener
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableInput(
                    f"{name} is not a regular file", "give a config.json, or the folder that holds it"
                )
            check_size(status.st_size, name)
            data = file.read(LIMIT + 1)
    except OSError as error:
        raise UnreadableInput(f"cannot read {name}: {reason(error)}", "give a file that can be read") from error
    check_size(len(data), name)
    return parse_object(data, name)


def open_at_once(path: str, _: int) -> int:
    """Open without waiting: a FIFO that nobody writes to must be refused."""
    return os.open(path, _OPEN)


def check_size(size: int, name: str) -> None:
    """Refuse more bytes than a config ever holds."""
    if size > LIMIT:
        raise UnreadableInput(f"{name} is larger than {binary(LIMIT)}", "a config.json holds kilobytes: is this one?")


def reason(error: OSError) -> str:
    """Say in the system's own words why a file cannot be used."""
    return (error.strerror or type(error).__name__).lower()


def parse_object(data: bytes, name: str) -> dict[str, Any]:
    """Parse bytes that must be one JSON object in UTF-8, with or without a byte order mark."""
    if not data.strip():
        raise UnreadableInput(f"{name} is empty", "a JSON object is expected")
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UnreadableInput(f"{name} is not UTF-8 text (byte {error.start})", "a JSON object is expected") from error
    except json.JSONDecodeError as error:
        if data.lstrip()[:1] == b"<":
            raise UnreadableInput(
                f"{name} is a web page, not JSON", "a proxy or a login page may have answered"
            ) from error
        where = f"line {error.lineno}, column {error.colno}"
        hint = "is the file whole, and is it a config.json?"
        raise UnreadableInput(f"{name} is not JSON: {error.msg.lower()} ({where})", hint) from error
    except RecursionError as error:
        raise _too_deep(name) from error
    except (ValueError, MemoryError) as error:  # an integer of more than 4300 digits; a tree that outgrows the memory
        raise UnreadableInput(f"{name} holds a value that is too large to be read", "no config.json does") from error
    if not isinstance(value, dict):
        raise UnreadableInput(f"{name} is JSON, but {_kind(value)} and not an object", "is it a config.json?")
    # Every level opens a bracket, so a text with few of them needs no walk.
    if data.count(b"{") + data.count(b"[") > DEPTH and _deeper_than(value, DEPTH):
        raise _too_deep(name)
    return value


def tokenizer_limit(document: dict[str, Any]) -> int | None:
    """Return `model_max_length` of a tokenizer_config.json, in tokens, or None where it sets none.

    The library writes int(1e30) for "no limit"; nothing above 2**53 is a length.
    """
    limit = document.get("model_max_length")
    if isinstance(limit, float) and limit.is_integer():
        limit = int(limit)
    if isinstance(limit, bool) or not isinstance(limit, int):
        return None
    return limit if 0 < limit <= 2**53 else None


def lacks_config(where: str, names: Collection[str]) -> UnreadableInput:
    """Say that a folder or repository has no config.json, and what it holds instead."""
    message = f"{where} has no config.json"
    if any(name.lower().endswith(".gguf") for name in names):
        return refuse_gguf(where)
    if "params.json" in names:
        hint = "it has a params.json in Mistral's own layout: give a checkpoint in the Hugging Face layout"
        return UnreadableInput(message, hint)
    if "adapter_config.json" in names:
        return UnreadableInput(message, "it holds an adapter (adapter_config.json): give the base model that it names")
    if "model_index.json" in names:
        return UnreadableInput(message, "it holds a diffusion pipeline (model_index.json), which has no KV cache")
    if "snapshots" in names:
        return UnreadableInput(message, "it is a folder of the Hub's cache: give one of the folders in snapshots/")
    some = ", ".join(shown(name) for name in sorted(names)[:4])
    rest = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return UnreadableInput(message, f"it holds {some}{rest}" if names else "it is empty")


def refuse_gguf(where: str) -> UnreadableInput:
    """Say that GGUF is not read."""
    hint = "give the checkpoint that it was converted from: a Hub id, a folder or a config.json"
    return UnreadableInput(f"{where} is GGUF, which kvplan does not read", hint)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case list():
            return "a list"
        case str():
            return "a string"
        case _:
            return "a number or a boolean"


def _too_deep(name: str) -> UnreadableInput:
    return UnreadableInput(f"{name} nests more than {DEPTH} levels deep", "no config.json does")


def _deeper_than(value: object, limit: int) -> bool:
    """Walk level by level, without recursion."""
    level: list[object] = [value]
    for _ in range(limit):
        inner = (
            entry.values() if isinstance(entry, dict) else entry for entry in level if isinstance(entry, dict | list)
        )
        level = [child for children in inner for child in children if isinstance(child, dict | list)]
        if not level:
            return False
    return True
