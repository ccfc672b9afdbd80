"""Markup by hand: an element is a string, and what a stranger wrote is escaped on its way into it."""

from __future__ import annotations

from html import escape

from kvplan.errors import printable

_VOID = frozenset({"meta", "br", "hr"})


def text(value: str) -> str:
    """Return text as markup; what would steer a reader (controls, text that runs backwards) shows as its escape."""
    return escape(printable(value))


def element(name: str, /, *children: str, **attributes: str | float | None) -> str:
    """Return an element; `class_` is class, `stroke_width` stroke-width, and an attribute that is None stays out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>" + ("" if name in _VOID else f"{''.join(children)}</{name}>")


def _value(value: str | float) -> str:
    return text(value) if isinstance(value, str) else f"{round(value, 2):g}" if isinstance(value, float) else str(value)
