"""The colours of pages and plots, in light and in dark, and the words for the parts of memory.

Every fill stands at 3:1 or more from the page and carries its ink at 4.5:1 or more (WCAG 2.2), which a test computes.
Colour never speaks alone: parts stand in the order of the table and are hatched where they are estimated, curves differ
in marker and dash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours by role; `ink` is what is written on a `fills` colour."""

    page: str
    panel: str
    text: str
    quiet: str
    line: str
    good: str
    bad: str
    ink: str
    fills: Mapping[str, str]
    curves: tuple[str, ...]


LIGHT = Theme(
    page="#ffffff",
    panel="#f5f6f8",
    text="#16191d",
    quiet="#565f6b",
    line="#d4d9df",
    good="#1a6b3c",
    bad="#a4242c",
    ink="#ffffff",
    fills=MappingProxyType(
        {
            "kv_cache": "#1c5fae",
            "weights": "#59636f",
            "activations": "#a35406",
            "cuda_graphs": "#77459f",
            "non_torch": "#23725a",
            "persistent": "#8f3453",
            "encoder_cache": "#3f4fa3",
            "other": "#6b6415",
        }
    ),
    curves=("#1c5fae", "#a35406", "#23725a", "#77459f", "#8f3453", "#59636f"),
)
DARK = Theme(
    page="#14171b",
    panel="#1d2127",
    text="#e8ebee",
    quiet="#a3adb8",
    line="#39414b",
    good="#7fd6a0",
    bad="#f2a0a2",
    ink="#101317",
    fills=MappingProxyType(
        {
            "kv_cache": "#79b4f2",
            "weights": "#a8b2bd",
            "activations": "#eba866",
            "cuda_graphs": "#c6a5ea",
            "non_torch": "#80cfae",
            "persistent": "#e79cb2",
            "encoder_cache": "#a5b1f5",
            "other": "#cfc46a",
        }
    ),
    curves=("#79b4f2", "#eba866", "#80cfae", "#c6a5ea", "#e79cb2", "#a8b2bd"),
)
_LABELS = {"kv_cache": "KV cache", "cuda_graphs": "CUDA graphs", "non_torch": "non-torch", "post_load": "after load"}


def role(part: str) -> str:
    """Return the fill that a part of memory takes; parts without one of their own share `other`."""
    return part if part in LIGHT.fills else "other"


def part_label(part: str) -> str:
    """Return a part's name in words."""
    return _LABELS.get(part, part.replace("_", " "))
