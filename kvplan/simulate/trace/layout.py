"""Where a trace keeps what: column and field names, the unit of its clock, and how texts are measured."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from math import ceil
from typing import Any

from kvplan.errors import UsageError, near
from kvplan.simulate.trace.values import UNITS

# Names as public traces have them, folded; the first that a file has is taken. Sources: Azure LLM inference traces 2023
# and 2024, BurstGPT, Mooncake, Vidur, vLLM's and SGLang's benchmark logs, the usage object of OpenAI's API.
KNOWN: Mapping[str, tuple[str, ...]] = {
    "prompt": (
        "contexttokens", "inputlength", "prompttokens", "inputtokens", "promptlen", "promptlength", "requesttokens",
        "numprefilltokens", "inputlen", "prompt",
    ),
    "output": (
        "generatedtokens", "outputlength", "completiontokens", "outputtokens", "outputlen", "responsetokens",
        "numdecodetokens", "output", "maxtokens",
    ),
    "arrival": (
        "timestamp", "arrivedat", "arrivaltime", "arrival", "created", "createdat", "starttime", "time", "ts",
    ),
    "id": ("requestid", "id", "customid"),
    "priority": ("priority",),
    "salt": ("cachesalt", "salt"),
}  # fmt: skip
ROLES = tuple(KNOWN)


@dataclass(frozen=True, slots=True)
class Layout:
    """What the user says of a trace.

    `columns` maps a role to the trace's own name for it (a dotted path in JSON). `unit` of numeric times: None is
    seconds, milliseconds in the Mooncake format. Texts are measured with a tokenizer.json, or by their characters,
    where the trace gives no lengths.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    unit: str | None = None
    tokenizer: str | None = None
    chars_per_token: float | None = None

    def counter(self) -> Callable[[str], int] | None:
        """Return how a text is measured in tokens, None where nothing is said; raises UsageError for a tokenizer."""
        if self.tokenizer is not None:
            return _tokenizer(self.tokenizer)
        if self.chars_per_token is None:
            return None
        each = self.chars_per_token
        return lambda text: ceil(len(text) / each)


def parse_columns(text: str) -> dict[str, str]:
    """Read `prompt=ContextTokens,output=GeneratedTokens`."""
    columns: dict[str, str] = {}
    for part in text.split(","):
        role, equals, name = (piece.strip() for piece in part.partition("="))
        if not equals or not name or role not in KNOWN:
            hint = near(role, KNOWN) or f"ROLE=NAME,…; roles: {', '.join(ROLES)}"
            raise UsageError(f"--columns: {part[:60]!r} is not read", hint)
        columns[role] = name
    return columns


def check_unit(text: str) -> str:
    """Return a unit of time; raises UsageError for any other word."""
    if text not in UNITS:
        raise UsageError(f"--time-unit {text[:20]!r} is unknown", f"one of {', '.join(UNITS)}")
    return text


def folded(name: str) -> str:
    """Fold a name so that `Request tokens`, `request_tokens` and `RequestTokens` are one."""
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def find_roles(names: Iterable[str]) -> dict[str, str]:
    """Return which of the names plays which role."""
    by_folded: dict[str, str] = {}
    for name in names:
        by_folded.setdefault(folded(name), name)
    found = {}
    for role, known in KNOWN.items():
        first = next((by_folded[name] for name in known if name in by_folded), None)
        if first is not None:
            found[role] = first
    return found


def _tokenizer(path: str) -> Callable[[str], int]:
    if find_spec("tokenizers") is None:
        raise UsageError(
            "--tokenizer needs the tokenizers library, which is not installed",
            "pip install tokenizers, or --chars-per-token 4 to estimate by characters",
        )
    try:
        loaded: Any = import_module("tokenizers").Tokenizer.from_file(path)
    except Exception as error:  # the library raises bare Exceptions
        hint = "give a tokenizer.json, as checkpoints have it"
        raise UsageError(f"cannot read the tokenizer {path[:80]}", hint) from error
    return lambda text: len(loaded.encode(text, add_special_tokens=False).ids)
