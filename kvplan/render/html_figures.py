"""The page's figures as inline SVG, drawn for the width of a phone: 360 units, letters of 11."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, pi, sin

from kvplan.render.html_markup import element, text
from kvplan.render.palette import part_label, role
from kvplan.render.picture import Bar, Curve, Part, Point
from kvplan.render.scale import LogScale, decades, doublings
from kvplan.units import gib, quantity

_WIDTH = 360
_LETTER, _BOLD = 6.2, 7.0  # the width of a letter at a size of 11, rounded up
_ROW, _BAR = 52, 24
_GAP = 1.5  # of the page's colour between two parts, so that they are told apart without colour
_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 70.0, 352.0, 14.0, 196.0, 232
_SIDES = (0, 4, 3, 5, 6, 8)  # the corners of each curve's marker; 0 is a circle
_DASHES = (None, "6 3", "2 3", "8 3 2 3", "4 4", "1 3")


def memory_figure(bars: Sequence[Bar]) -> str:
    """Return the stacked bars, one a card, all on the scale of the largest."""
    scale = max(max(bar.memory, sum(part.bytes for part in bar.parts)) for bar in bars)
    height = _ROW * len(bars)
    rows = [_bar(bar, index * _ROW, scale) for index, bar in enumerate(bars)]
    told = "; ".join(f"{bar.label}: {_told(bar)}" for bar in bars)
    return _svg(height, "Memory of one GPU", told, _hatch(), *rows)


def _told(bar: Bar) -> str:
    return f"{gib(bar.memory, 2)}, " + ", ".join(f"{part_label(part.name)} {gib(part.bytes, 2)}" for part in bar.parts)


def _bar(bar: Bar, top: float, scale: int) -> str:
    base, width = top + 18, _WIDTH * bar.memory / scale
    size = gib(bar.memory)
    room = int((_WIDTH - len(size) * _LETTER) / _BOLD) - 1
    label = bar.label if len(bar.label) <= room else f"{bar.label[: room - 1]}…"
    pieces = [
        element("text", text(label), x=0, y=top + 12.0, class_="strong"),
        element("text", text(size), x=_WIDTH, y=top + 12.0, text_anchor="end"),
        element("rect", x=0.5, y=base + 0.5, width=max(width - 1, 1.0), height=_BAR - 1, class_="frame"),
    ]
    left = 0.0
    for part in bar.parts:
        share = _WIDTH * part.bytes / scale
        pieces.append(_part(part, left, base, share))
        left += share
    free = bar.memory - sum(part.bytes for part in bar.parts)
    if free < 0:
        pieces.append(element("line", x1=width, x2=width, y1=base - 3, y2=base + _BAR + 3, class_="edge"))
    pieces.append(_inside(f"free {gib(free)}", left, base, width - left, "quiet") if free > 0 else "")
    return element("g", *pieces, data_bar=bar.label, data_bytes=bar.memory)


def _part(part: Part, left: float, top: float, width: float) -> str:
    drawn = max(width - _GAP, 0.6)
    estimate = ", estimated" if part.estimated else ""
    label, box = part_label(part.name), {"x": left, "y": top, "width": drawn, "height": _BAR}
    return element(
        "g",
        element("title", text(f"{label}: {gib(part.bytes, 2)}{estimate}")),
        element("rect", **box, class_=f"fill-{role(part.name)}"),
        element("rect", **box, fill="url(#estimated)") if part.estimated else "",
        _inside(f"{label} {gib(part.bytes)}", left, top, width, "ink")
        or _inside(label, left, top, width, "ink")
        or _inside(gib(part.bytes), left, top, width, "ink"),
        data_part=part.name,
        data_bytes=part.bytes,
    )


def _inside(words: str, left: float, top: float, width: float, class_: str) -> str:
    """Return the words where they fit into a slice, nothing where they do not: the table names every part."""
    if len(words) * _LETTER > width - 4:
        return ""
    return element("text", text(words), x=left + width / 2, y=top + 16.0, text_anchor="middle", class_=class_)


def _hatch() -> str:
    line = element("path", d="M0 6 L6 0", class_="hatch")
    pattern = element("pattern", line, id="estimated", width=6, height=6, patternUnits="userSpaceOnUse")
    return element("defs", pattern)


def curves_figure(curves: Sequence[Curve], name: str, unit: str, value: Callable[[Point], float]) -> str:
    """Return one value against context length, both on logarithmic axes; `unit` is written beside the values."""
    lengths = [point.length for curve in curves for point in curve.points]
    values = [value(point) for curve in curves for point in curve.points]
    shortest, longest = min(lengths), max(lengths)
    spread = 1 if longest > shortest else 2
    across = LogScale(shortest / spread, longest * spread, _LEFT, _RIGHT)
    low, high, ticks = decades(min(values), max(values))
    up = LogScale(low, high, _BOTTOM, _TOP)
    pieces = [_tick_y(up.at(tick), f"{tick:,.0f}") for tick in ticks]
    room = int((_RIGHT - _LEFT) / (_LETTER * (len(f"{longest:,}") + 1)))
    pieces += [_tick_x(across.at(tick), f"{tick:,}") for tick in doublings(shortest, longest, room)]
    pieces.append(
        element(
            "text",
            "context length, tokens",
            x=(_LEFT + _RIGHT) / 2,
            y=_HEIGHT - 4,
            text_anchor="middle",
            class_="quiet",
        )
    )
    for index, curve in enumerate(curves):
        spots = [(across.at(point.length), up.at(value(point)), point) for point in curve.points]
        pieces.append(_curve(index, curve.label, spots, unit, value))
    told = "; ".join(
        f"{curve.label}: " + ", ".join(f"{_value(value(point))} at {point.length:,}" for point in curve.points)
        for curve in curves
    )
    return _svg(_HEIGHT, name, told, *pieces)


def curve_key(index: int) -> str:
    """Return the line and marker of a curve, for the key beside the figure."""
    line = element("path", d="M2 8 L34 8", class_=f"line curve-{index}", stroke_dasharray=_DASHES[index])
    return element("svg", line, _marker(index, 18, 8), viewBox="0 0 36 16", width=36, height=16, aria_hidden="true")


def _curve(
    index: int, label: str, spots: Sequence[tuple[float, float, Point]], unit: str, value: Callable[[Point], float]
) -> str:
    path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y, _ in spots)
    marks = [
        element(
            "g",
            element("title", text(f"{label}: {_value(value(point))} {unit} at {point.length:,} tokens")),
            _marker(index, x, y),
            data_length=point.length,
            data_value=repr(value(point)),
        )
        for x, y, point in spots
    ]
    line = element("path", d=path, class_=f"line curve-{index}", stroke_dasharray=_DASHES[index])
    return element("g", line, *marks, data_curve=label)


def _marker(index: int, x: float, y: float) -> str:
    sides, size, class_ = _SIDES[index], 4.0, f"mark-{index}"
    if not sides:
        return element("circle", cx=x, cy=y, r=3.4, class_=class_)
    angles = [pi * (2 * corner / sides - 0.5) for corner in range(sides)]
    corners = " ".join(f"{x + size * cos(a):.1f},{y + size * sin(a):.1f}" for a in angles)
    return element("polygon", points=corners, class_=class_)


def _tick_y(y: float, words: str) -> str:
    line = element("line", x1=_LEFT, x2=_RIGHT, y1=y, y2=y, class_="grid")
    return line + element("text", words, x=_LEFT - 6, y=y + 4, text_anchor="end")


def _tick_x(x: float, words: str) -> str:
    line = element("line", x1=x, x2=x, y1=_TOP, y2=_BOTTOM, class_="grid")
    half = len(words) * _LETTER / 2
    return line + element("text", words, x=min(x, _WIDTH - half), y=_BOTTOM + 16, text_anchor="middle")


def _value(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else quantity(value, 2)


def _svg(height: int, name: str, told: str, *pieces: str) -> str:
    heading = element("title", text(name)) + element("desc", text(told))
    return element("svg", heading, *pieces, viewBox=f"0 0 {_WIDTH} {height}", role="img")
