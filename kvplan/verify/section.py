"""What `kvplan verify` verifies: the command line's model, else kvplan.yaml's `verify`, else the built-in default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvplan.config import find_config, load_config
from kvplan.verify.run import DEFAULT_MODEL


def configured(model: str | None) -> tuple[str, dict[str, Any]]:
    """Return the model and the flags that go with it; a model on the command line brings none."""
    if model is not None:
        return model, {}
    path = find_config(Path.cwd())
    section = load_config(path).verify if path is not None else None
    if section is None:
        return DEFAULT_MODEL, {}
    return section.model, dict(section.args)
