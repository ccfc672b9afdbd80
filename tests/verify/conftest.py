"""What the tests of verify share: the fake card's module on the path, for the child too (it inherits sys.path)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
