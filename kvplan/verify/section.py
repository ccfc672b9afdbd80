"""What `kvplan verify` verifies: the command line's model, else kvplan.yaml's `verify`, else the built-in default."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvplan.config import find_config, load_config
from kvplan.engine.names import NAMES
from kvplan.verify.run import DEFAULT_MODEL


def configured(model: str | None) -> tuple[str, dict[str, Any]]:
    """Return the model and the flags that go with it; a model on the command line brings none."""
    if model is not None:
        return model, {}
    path = find_config(Path.cwd())
    section = load_config(path).verify if path is not None else None
    if section is None:
        return DEFAULT_MODEL, {}
    return section.model, by_field(section.args)


def by_field(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return flags under the fields that they set, so that a short name on the command line overrides a long one."""
    return {NAMES["vllm"].get(name, name): value for name, value in flags.items()}
