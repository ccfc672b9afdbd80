"""From what the user calls a model to its config files: a path on this disk, a built-in, or the Hub."""

from __future__ import annotations

import os
import re

from kvplan.errors import UnknownModel, near
from kvplan.sources.builtin import builtin as find_builtin
from kvplan.sources.builtin import known_names
from kvplan.sources.checkpoint import Checkpoint
from kvplan.sources.document import shown
from kvplan.sources.local import is_path, load_local

__all__ = ["Checkpoint", "load"]

# The Hub's own rule: at most 96 letters, digits, `-`, `_` and `.`; no `--` or `..`; `-` and `.` at neither end.
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_HUB_ID = re.compile(rf"(?!.*(?:--|\.\.))(?:{_PART}/)?{_PART}(?<!\.git)")


def load(model: str | os.PathLike[str], *, revision: str | None = None) -> Checkpoint:
    """Read the config files of a checkpoint.

    A path object, or text that lies on this disk or looks like a path, is read from there, and `revision` says nothing
    then (as in the engines). Else a built-in answers, unless a revision is asked for; else the Hub does.
    Raises UnknownModel, UnreadableInput or HubUnreachable.
    """
    text = os.fspath(model)
    if not isinstance(model, str) or is_path(text):
        return load_local(text)
    if _HUB_ID.fullmatch(text) is None:
        raise _not_a_model(text)
    if not revision and (found := find_builtin(text)) is not None:
        return found
    from kvplan.sources.hub import load_hub  # noqa: PLC0415  # the library behind it costs 0.2 s

    return load_hub(text, revision=revision or None)


def _not_a_model(text: str) -> UnknownModel:
    if not text:
        return UnknownModel("no model is named", "give a Hub id, a folder or a config.json")
    message = f"{shown(text)} is neither a path, a built-in nor a Hub id"
    if text.startswith(("http://", "https://", "hf://")):
        return UnknownModel(message, "give the id alone, as in meta-llama/Llama-3.1-8B")
    base, at, _ = text.partition("@")
    if at and _HUB_ID.fullmatch(base):
        return UnknownModel(message, "give what follows the @ as --revision")
    return UnknownModel(message, near(text[:200], known_names()) or "a Hub id is owner/name")
