"""Read the files of profiles/: YAML so plain that a start-up need not load a YAML library (15 ms).

A file is `key: value` lines, a value being JSON or a bare word; `key:` alone opens a section, whose lines are indented
by two blanks. Every YAML reader agrees with this one: a test holds all files to that.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_JSON_STARTS = frozenset('"[{-0123456789')
_WORDS = {"true": True, "false": False, "null": None}


def plain(text: str) -> dict[str, Any]:
    """Parse one document; raises ValueError for a value that is no JSON."""
    fields: dict[str, Any] = {}
    section = fields
    for line in text.splitlines():
        if not line or line.lstrip().startswith(("#", "---")):
            continue
        inner = line.startswith("  ")
        key, _, value = line.strip().partition(":")
        value = value.lstrip()
        target = section if inner else fields
        if value:
            target[_unquoted(key)] = _value(value)
        else:
            section = target[_unquoted(key)] = {}
    return fields


def load(path: Path) -> dict[str, Any]:
    """Parse a file of one document."""
    return plain(path.read_text(encoding="utf-8"))


def _value(text: str) -> Any:
    return json.loads(text) if text[0] in _JSON_STARTS else _WORDS.get(text, text)


def _unquoted(key: str) -> str:
    return key[1:-1] if key.startswith('"') else key
