"""A replay as a picture: the pool, the queues, preemptions and prefix hits over the virtual clock (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

from kvplan.errors import UsageError
from kvplan.render.palette import LIGHT
from kvplan.render.plot import STYLE
from kvplan.render.simulate import Report
from kvplan.render.simulate_text import report_text
from kvplan.simulate.summary import Point
from kvplan.sources.whole import write_whole

SUFFIXES = (".html", ".png", ".svg")
_UNITS = ((3600 * 10**9, "hours"), (60 * 10**9, "minutes"), (10**9, "seconds"), (10**6, "milliseconds"))


def check_plot(path: str) -> None:
    """Raise UsageError where a picture cannot be drawn: before a long replay, not after it."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        hint = f"a name ending in {', '.join(SUFFIXES)}"
        raise UsageError(f"--plot {path[:80]!r} is no picture that kvplan draws", hint)
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib, which is not installed", "pip install matplotlib (the extra `plot`)")


def write_plot(report: Report, path: str) -> None:
    """Draw a replay into a file, by its suffix; raises UsageError where that cannot be written."""
    matplotlib: Any = import_module("matplotlib")
    target = Path(path)
    try:
        with matplotlib.rc_context(STYLE):
            figure = _figure(report)
            match target.suffix.lower():
                case ".html":
                    write_whole(target, _page(report, figure))
                case ".svg":
                    write_whole(target, _svg(figure))
                case _:
                    figure.savefig(target, dpi=160)
    except OSError as error:
        raise UsageError(f"cannot write --plot {path[:80]}: {(error.strerror or 'it failed').lower()}") from error


def _figure(report: Report) -> Any:
    figure_module: Any = import_module("matplotlib.figure")  # without pyplot there is no window and no global state
    points = report.result.curve
    last = points[-1].end_ns if points else 1
    size, unit = next(((size, unit) for size, unit in _UNITS if last >= size), _UNITS[-1])
    times = [point.end_ns / size for point in points]
    usable = report.result.settings.usable
    figure = figure_module.Figure(figsize=(9.0, 7.2), layout="constrained")
    figure.suptitle(_title(report), x=0.01, ha="left", fontsize=10)
    pool, queues, preempted, hits = figure.subplots(4, 1, sharex=True, height_ratios=[3, 3, 1.5, 1.5])
    used = [100 * point.used_blocks / usable for point in points]
    pool.fill_between(times, used, color=LIGHT.curves[0], alpha=0.8)
    pool.set_ylim(0, 105)
    queues.plot(times, [point.running for point in points], color=LIGHT.curves[2], label="running")
    waiting = [point.waiting for point in points]
    queues.plot(times, waiting, color=LIGHT.curves[1], label="waiting", linestyle=(0, (6, 3)))
    queues.legend(frameon=False, fontsize=8, ncols=2)
    preempted.bar(times, [point.preempted for point in points], width=_width(times), color=LIGHT.bad)
    hits.plot(times, _hit_rates(points), color=LIGHT.curves[3])
    hits.set_ylim(0, 105)
    for axes, name in (
        (pool, "pool used, %"), (queues, "requests"), (preempted, "preemptions"), (hits, "prefix hits so far, %"),
    ):  # fmt: skip
        axes.set_title(name, fontsize=9, loc="left")
        axes.grid(color=LIGHT.line, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    hits.set_xlabel(f"{unit} of the virtual clock ({report.deployment.clock.basis})")
    return figure


def _title(report: Report) -> str:
    settings, summary = report.deployment.settings, report.result.summary
    model = report.deployment.plan.model.id if report.deployment.plan else "given settings"
    return (
        f"{Path(report.trace).name}: {summary.requests:,} requests against {settings.usable:,} blocks of"
        f" {settings.block_size} tokens\n{model}, {summary.preemptions:,} preemptions"
    )


def _hit_rates(points: Sequence[Point]) -> list[float]:
    rates, queried, hit = [], 0, 0
    for point in points:
        queried += point.queried
        hit += point.hit
        rates.append(100 * hit / queried if queried else 0.0)
    return rates


def _width(times: Sequence[float]) -> float:
    return (times[-1] - times[0]) / len(times) if len(times) > 1 else 1.0


def _svg(figure: Any) -> str:
    out = StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def _page(report: Report, figure: Any) -> str:
    """Return one file that needs nothing else: the picture, and the figures as text."""
    svg = _svg(figure)
    picture = svg[svg.index("<svg") :]
    told = escape("\n".join(report_text(report)))
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>kvplan simulate</title>\n"
        f"<style>body{{font:14px/1.5 sans-serif;margin:2rem;color:{LIGHT.text};background:{LIGHT.page}}}"
        "svg{max-width:100%;height:auto}pre{overflow-x:auto}</style></head>\n"
        f"<body><h1>kvplan simulate</h1>\n{picture}\n<pre>{told}</pre></body></html>\n"
    )
