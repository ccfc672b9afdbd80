"""A picture as SVG or PNG, drawn by matplotlib (the extra `plot`) in the page's light colours."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kvplan.errors import UsageError
from kvplan.render.palette import LIGHT, part_label, role
from kvplan.render.picture import MAX_BARS, MAX_CURVES, Curve, Picture
from kvplan.units import GIB, gib

_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES: tuple[Any, ...] = ("-", (0, (6, 3)), (0, (2, 3)), (0, (8, 3, 2, 3)), (0, (4, 4)), (0, (1, 3)))
STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": LIGHT.line,
    "axes.labelcolor": LIGHT.quiet,
    "xtick.color": LIGHT.quiet,
    "ytick.color": LIGHT.quiet,
    "text.color": LIGHT.text,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",  # letters stay letters: searchable, and a tenth of the size
    "svg.hashsalt": "kvplan",  # the same plan gives the same file
    "text.parse_math": False,  # a file may be called $x$
}


def require_matplotlib(name: str) -> None:
    """Raise UsageError where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        hint = "pip install matplotlib (the extra `plot`), or write a .html, which needs nothing"
        raise UsageError(f"--plot {name} needs matplotlib, which is not installed", hint)


def write_plot(picture: Picture, path: Path) -> None:
    """Write an SVG or a PNG, by the path's suffix; raises OSError where the path cannot be written."""
    matplotlib: Any = import_module("matplotlib")
    figure_module: Any = import_module("matplotlib.figure")  # without pyplot there is no window and no global state
    bars, curves = picture.bars[:MAX_BARS], [curve for curve in picture.curves if curve.points][:MAX_CURVES]
    tall = 0.9 + 0.45 * len(bars)
    with matplotlib.rc_context(STYLE):
        figure = figure_module.Figure(figsize=(9.0, tall * bool(bars) + 3.4 * bool(curves) + 0.9), layout="constrained")
        figure.suptitle(f"{picture.title}\n{picture.subtitle}", x=0.01, ha="left", fontsize=10)
        ratios = [*([tall] if bars else []), *([3.4] if curves else [])]
        grid = figure.add_gridspec(max(1, len(ratios)), 2, height_ratios=ratios or [1])
        if bars:
            _memory(figure.add_subplot(grid[0, :]), picture)
        if curves:
            _curves(figure.add_subplot(grid[-1, 0]), curves, "requests at once")
            _curves(figure.add_subplot(grid[-1, 1]), curves, "tokens in the pool")
        metadata = {"Title": picture.title} | ({"Date": None} if path.suffix.lower() == ".svg" else {})
        figure.savefig(path, dpi=160, metadata=metadata)


def _memory(axes: Any, picture: Picture) -> None:
    bars = picture.bars[:MAX_BARS]
    named: set[str] = set()
    for row, bar in enumerate(bars):
        left = 0.0
        for part in bar.parts:
            width = part.bytes / GIB
            label = None if part.name in named else part_label(part.name)
            named.add(part.name)
            hatch = "///" if part.estimated else None
            colour = LIGHT.fills[role(part.name)]
            axes.barh(row, width, left=left, color=colour, edgecolor=LIGHT.page, hatch=hatch, label=label)
            if width > 0.09 * max(b.memory for b in bars) / GIB:
                axes.text(left + width / 2, row, gib(part.bytes), color=LIGHT.ink, ha="center", va="center", fontsize=8)
            left += width
        axes.vlines(bar.memory / GIB, row - 0.45, row + 0.45, color=LIGHT.text, linewidth=1.2)
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars])
    axes.invert_yaxis()
    axes.set_xlabel("GiB of one GPU; hatched: estimated; line: all of its memory")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _curves(axes: Any, curves: list[Curve], name: str) -> None:
    for index, curve in enumerate(curves):
        lengths = [point.length for point in curve.points]
        values = [point.requests if name.startswith("requests") else point.tokens for point in curve.points]
        style = {"color": LIGHT.curves[index], "marker": _MARKERS[index], "linestyle": _DASHES[index]}
        axes.plot(lengths, values, label=curve.label, markersize=4, linewidth=1.6, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,.0f}")
    axes.tick_params(axis="x", labelrotation=30)
    axes.set_xlabel("context length, tokens")
    axes.set_title(name, fontsize=9, loc="left")
    axes.grid(color=LIGHT.line, linewidth=0.6)
    if len(curves) > 1:
        axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
