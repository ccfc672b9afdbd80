"""Write the plain YAML of profiles/ (kvplan/profile.py reads it back): a line a field, values as JSON or bare words."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+()-]+)*")
_AMBIGUOUS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def plain_yaml(fields: dict[str, Any]) -> str:
    """Return a document whose sections, dicts at the top level, have a line for each of their fields."""
    lines = []
    for key, value in fields.items():
        if isinstance(value, dict) and value:
            lines += [f"{key}:", *(f"  {_key(inner)}: {_line(v)}" for inner, v in value.items())]
        else:
            lines.append(f"{_key(key)}: {_line(value)}")
    return "\n".join(lines) + "\n"


def _line(value: Any) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value) and value.lower() not in _AMBIGUOUS:
        return value
    return _json(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", key) else json.dumps(key)


def _json(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_json(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("JSON has no spelling of infinity")
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))  # YAML takes 1e-05 for a word, 1.0e-05 for a number
    return json.dumps(value, ensure_ascii=False)
