"""Writing an answer to stdout: plain text, or coloured where a terminal reads it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from kvplan.errors import printable

_STYLES = {"fits:": "bold green", "refused:": "bold red", "next:": "cyan", "note:": "yellow"}


def write_lines(lines: Sequence[str]) -> None:
    """Write lines; on a terminal the verdict, the next step and the notes are coloured (NO_COLOR turns that off)."""
    lines = [printable(line) for line in lines]
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        sys.stdout.write("\n".join(lines) + "\n")
        return
    from rich.console import Console  # rich costs as much as the plan: only a terminal pays for it
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        style = next((style for mark, style in _STYLES.items() if line.strip().startswith(mark)), "")
        console.print(Text(line, style=style))


def write_json(value: Any) -> None:
    """Write one JSON object."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
