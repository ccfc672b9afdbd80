"""The engines' own flags, by profiles/engines/ENGINE.flags.yaml, and what their values are once they have a type.

One spelling for the engines' parallel sizes: SGLang's `tp_size` is reported as `tensor_parallel_size`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kvplan.assets import PROFILES
from kvplan.manifests.tree import typed
from kvplan.profile import load
from kvplan.units import human_integer

TABLES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
SHARED_NAMES = {
    "tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size", "dp_size": "data_parallel_size",
    "ep_size": "expert_parallel_size", "dcp_size": "decode_context_parallel_size",
}  # fmt: skip
MODEL_NAMES = frozenset({"model", "model_path", "model_id"})
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)
_BOOLEANS = {
    "true": True, "yes": True, "on": True, "y": True, "1": True,
    "false": False, "no": False, "off": False, "n": False, "0": False,
}  # fmt: skip
MAX_JSON = 64 * 1024  # characters; the longest public --hf-overrides has 2,000


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag as the parser has it. `words` is how many a value takes: 0, 1, `?`, `*` or `+`; `on`: what it sets."""

    dest: str
    type: str
    words: int | str
    on: bool = True

    @property
    def name(self) -> str:
        """The name under which its value is reported."""
        return SHARED_NAMES.get(self.dest, self.dest)


@dataclass(frozen=True, slots=True)
class Table:
    """The flags of one engine; `release` is the only one that the table is certain of."""

    engine: str
    release: str
    prefixes: bool
    flags: Mapping[str, Flag]

    def find(self, written: str) -> Flag | None:
        """Return the flag of a spelling: its own, another, its negative, or the beginning of one flag only."""
        name = _dashed(written)
        if (found := self.flags.get(name)) is not None or not self.prefixes or not name.startswith("--"):
            return found
        beginning = {flag for known, flag in self.flags.items() if known.startswith(name)}
        return beginning.pop() if len(beginning) == 1 else None

    def by_key(self, key: str) -> Flag | None:
        """Return the flag that a key of a config file or a mapping means: `max-model-len`, `max_model_len`."""
        return self.flags.get("--" + _dashed(key))


def _dashed(name: str) -> str:
    """Write `-` for `_` up to the first dot, as the parsers do."""
    head, dot, tail = name.partition(".")
    return head.replace("_", "-") + dot + tail


@cache
def table(engine: str) -> Table | None:
    """Return the table of an engine, None where there is none."""
    if engine not in TABLES:
        return None
    profile = load(PROFILES / "engines" / f"{TABLES[engine]}.flags.yaml")
    flags: dict[str, Flag] = {}
    for name, row in profile["flags"].items():
        kind = row.get("type", "str")
        words = row.get("words", 0 if kind == "bool" else 1)
        flag = Flag(row["dest"], kind, words)
        for spelling in (name, *row.get("aliases", ())):
            flags[spelling] = flag
        for spelling in row.get("negatives", ()):
            flags[spelling] = Flag(row["dest"], kind, words, on=False)
    return Table(engine, profile["release"], profile["prefixes"], flags)


def value_of(text: str, kind: str) -> Any:
    """Return a text as a value of a flag's type; a text that is none of that type stays as it is."""
    match kind:
        case "int":
            return int(text) if _INTEGER.fullmatch(text.strip()) else text
        case "human_int":
            return _human(text.strip())
        case "float":
            return _number(text.strip())
        case "bool":
            return _BOOLEANS.get(text.strip().lower(), text)
        case "json":
            return json_of(text)
        case "unknown":
            return json_of(text) if text.lstrip()[:1] in ("{", "[") else typed(text)
    return text


def _human(text: str) -> Any:
    number = int(text) if _INTEGER.fullmatch(text) else human_integer(text)
    return text if number is None else number


def _number(text: str) -> Any:
    found = typed(text)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else text


def json_of(text: str) -> Any:
    """Return the value of a JSON text; the text where it is none, as with a variable inside that has no value."""
    if len(text) > MAX_JSON:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict | list) else text
