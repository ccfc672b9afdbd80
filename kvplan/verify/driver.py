"""What the driver's own tool says of a card: memory in use and processes. It needs no context, so it disturbs nothing.

nvidia-smi counts a whole card; of a MIG slice it says nothing, and then neither does this module.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from kvplan.units import MIB
from kvplan.verify.device import Process

PATIENCE = 10.0  # seconds; the tool takes 0.1, and hangs where the driver does


def used(index: int) -> int | None:
    """Return the bytes in use on card `index` as CUDA counts cards; None where the tool is missing or does not say."""
    rows = _query(index, "--query-gpu=memory.used")
    return rows[0][0] * MIB if rows and rows[0][0] is not None else None


def others(index: int) -> tuple[Process, ...]:
    """Return the compute processes on the card but this one; what is hidden (MIG, containers) is not listed."""
    found = []
    for row in _query(index, "--query-compute-apps=pid,used_memory") or ():
        pid, mib = row[0], row[1] if len(row) > 1 else None
        if pid is not None and pid != os.getpid():
            found.append(Process(pid, None if mib is None else mib * MIB))
    return tuple(found)


def _card(index: int) -> str | None:
    """Return the driver's name of what CUDA calls `index`; None for a MIG slice, or where it is not visible."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return str(index)
    names = [name.strip() for name in visible.split(",")]
    if index >= len(names) or names[index].startswith("MIG") or not names[index]:
        return None
    return names[index]


def _query(index: int, what: str) -> list[list[int | None]] | None:
    tool, card = shutil.which("nvidia-smi"), _card(index)
    if tool is None or card is None or card.startswith("-"):
        return None
    command = [tool, "-i", card, what, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(  # noqa: S603  # the tool is found on PATH, the card's name is no option
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=PATIENCE, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return [[_number(cell) for cell in line.split(",")] for line in done.stdout.splitlines()[:1000]]


def _number(text: str) -> int | None:
    """Read a cell; `[N/A]` and the like are None."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None
