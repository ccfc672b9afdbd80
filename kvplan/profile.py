"""Reading the YAML files of profiles/, which are ours: with the fast loader where libyaml is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(text: str) -> Any:
    """Parse one YAML document."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506  # a safe loader in both cases


def load_yaml(path: Path) -> Any:
    """Parse a file of one YAML document."""
    return parse_yaml(path.read_text(encoding="utf-8"))
