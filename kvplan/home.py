"""Where local data lies: what was observed on cards of one's own."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return $KVPLAN_HOME, else $XDG_DATA_HOME/kvplan, else ~/.local/share/kvplan."""
    own, data = os.environ.get("KVPLAN_HOME"), os.environ.get("XDG_DATA_HOME")
    if own:
        return Path(own)
    return (Path(data) if data else Path.home() / ".local" / "share") / "kvplan"


def holds(folder: str) -> bool:
    """Say whether there is anything to read in a folder of it; most machines have nothing, and import nothing then."""
    return (home() / folder).is_dir()
