"""Where the facts (profiles/) and the kernels (kernels/) lie: inside the wheel, or beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent
ROOT = _HERE / "_assets" if (_HERE / "_assets").is_dir() else _HERE.parent
PROFILES = ROOT / "profiles"
KERNELS = ROOT / "kernels"
