"""What changed between two sets of plans, as a Markdown table for a pull request."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from kvplan.render.check_markdown import MARKER
from kvplan.render.table import markdown_table
from kvplan.units import gib, quantity

_HEADER = ("deployment", "model", "hardware", "weights", "KV cache", "tokens", "requests", "longest", "verdict")
_RIGHT = frozenset({3, 4, 5, 6, 7})
Totals = Mapping[str, Any] | None


def diff_markdown(before: Mapping[str, Totals], after: Mapping[str, Totals], *, left_out: int = 0) -> list[str]:
    """Return the lines; deployments whose plans are the same, or that nobody asked for, are counted, not listed."""
    rows = []
    same = 0
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if key in before and key in after and _figures(old) == _figures(new):
            same += 1
        else:
            rows.append(_row(key, old, new, known=(key in before, key in after)))
    rest = f", {left_out} of other files not compared" if left_out else ""
    lines = [MARKER, "### kvplan diff", ""]
    if not rows:
        return [*lines, f"No plan changes ({same} the same{rest})."]
    return [*lines, *markdown_table(_HEADER, rows, right=_RIGHT), "", f"{len(rows)} changed, {same} the same{rest}."]


def _figures(totals: Totals) -> tuple[str, ...] | None:
    return None if totals is None else _cells(totals)


def _row(key: str, old: Totals, new: Totals, *, known: tuple[bool, bool]) -> tuple[str, ...]:
    name = f"{key} ({'new' if not known[0] else 'gone'})" if not all(known) else key
    if old is None or new is None:
        return (_plain(name), *_one(old if new is None else new))
    return (_plain(name), *(_change(a, b) for a, b in zip(_cells(old), _cells(new), strict=True)))


def _one(totals: Totals) -> tuple[str, ...]:
    return _cells(totals) if totals is not None else ("-",) * 7 + ("not planned",)


def _change(old: str, new: str) -> str:
    if old == new:
        return new
    share = _share(old, new)
    return f"{old} → {new}{f' ({share})' if share else ''}"


def _share(old: str, new: str) -> str:
    """Return how much a figure moved: `+12.5 %`; empty for what is no figure."""
    try:
        first, second = (float(text.split()[0].replace(",", "")) for text in (old, new))
    except (ValueError, IndexError):
        return ""
    return f"{(second / first - 1) * 100:+.1f} %" if first else ""


def _cells(totals: Mapping[str, Any]) -> tuple[str, ...]:
    gpus, gpu = totals.get("gpus"), totals.get("gpu")
    return tuple(
        _plain(cell)
        for cell in (
            str(totals.get("model") or "-"),
            f"{gpus} x {gpu}" if gpu else "-",
            _size(totals.get("weights_bytes_per_rank")),
            _size(totals.get("kv_bytes")),
            _count(totals.get("tokens")),
            quantity(totals["max_concurrency"], 2) if _is_number(totals.get("max_concurrency")) else "-",
            _count(totals.get("max_model_len")),
            str(totals.get("verdict") or "-"),
        )
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _size(value: Any) -> str:
    return gib(int(value)) if _is_number(value) else "-"


def _count(value: Any) -> str:
    return f"{int(value):,}" if _is_number(value) else "-"


def _plain(text: str) -> str:
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").replace("@", "&#64;").replace("`", "'").split())
