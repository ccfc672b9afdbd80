"""What `--plot` and `--format html` share: the lengths to plan for, and where a picture is written to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from kvplan.engine.args import engine_args
from kvplan.engine.names import flags_for, own_name
from kvplan.engine.registry import find_engine
from kvplan.errors import KvplanError, UsageError
from kvplan.fit.wish import Fit
from kvplan.model.spec import ModelSpec
from kvplan.planner import Plan, read_draft
from kvplan.render.explain import explain
from kvplan.render.picture import MAX_CURVES, Picture, picture, tensor_size
from kvplan.sources.whole import write_whole

_SHORTEST = 1024  # tokens; below that a pool holds more requests than an engine runs
SUFFIXES = (".html", ".png", ".svg")
Asked: TypeAlias = tuple[str, Mapping[str, Any]]  # an engine, and one plan's flags by its names


def look_at(
    spec: ModelSpec, asked: Sequence[Asked], plans: Sequence[Plan], *, local: bool, plot: str | None, page: bool
) -> None:
    """Draw plans, each made as `asked`, into the file `plot` and as a page on stdout; `local` as in `plan`."""
    look = pictured(plans, _again(spec, asked, plans, local=local), explain(plans[0]) if len(plans) == 1 else ())
    _draw(look, plot, page=page)


def look_at_fit(found: Fit, top: int, *, plot: str | None, page: bool) -> None:
    """Draw the cards that hold a load, best first, or where none does those that came nearest; as `look_at` does."""
    answers = [(answer.engine, answer.best) for answer in found.found]
    options = answers or [(answer.engine, answer.closest) for answer in found.failed]
    shown = [(engine, option) for engine, option in options if option is not None][:top]
    if not shown:
        raise UsageError("no card would start this model, so there is nothing to draw", "--format text says why")
    asked = [(engine, flags_for(engine.partition("@")[0], option.flags, ("vllm",))[0]) for engine, option in shown]
    plans = [option.plan for _, option in shown]
    wish = f"{found.wish.concurrency:,} requests of {found.wish.context:,} tokens"
    cards = len({answer.gpu.name for answer in found.found})
    told = f"{cards} cards hold {wish}" if cards else f"no card holds {wish}; the nearest are shown"
    look = pictured(plans, _again(found.model, asked, plans, local=False))
    _draw(replace(look, fits=bool(found.found), verdict=(told,)), plot, page=page)


def _draw(look: Picture, plot: str | None, *, page: bool) -> None:
    if plot is not None:
        write_picture(look, Path(plot))
    if page:
        from kvplan.render.html import html_page

        sys.stdout.write(html_page(look))


def _again(
    spec: ModelSpec, asked: Sequence[Asked], plans: Sequence[Plan], *, local: bool
) -> Callable[[int, int], Plan]:
    """Return what plans the card of an index anew, at another length."""
    drafts: dict[str, ModelSpec | None] = {}

    def again(index: int, length: int) -> Plan:
        engine, given = asked[index]
        name = engine.partition("@")[0]
        flags = {flag: value for flag, value in given.items() if flag != "gpu"}
        if engine not in drafts:  # a draft may come from the Hub: once is enough for every length
            drafts[engine] = read_draft(engine_args(flags, name))
        args = engine_args({**flags, own_name("max_model_len", name) or "max_model_len": length}, name)
        card = plans[index]
        return find_engine(engine, local=local)(spec, args, card.gpu, card.gpu_count, drafts[engine])

    return again


def pictured(plans: Sequence[Plan], again: Callable[[int, int], Plan], explanation: Sequence[str] = ()) -> Picture:
    """Return the picture of plans; `again` plans the card of an index anew, at another length."""
    curves = {}
    for index in _cards(plans):
        made = plans[index]
        curves[index] = [at for length in _lengths(made) if (at := _or_none(again, index, length)) is not None]
    return picture(plans, curves, explanation)


def check_plot(path: str) -> Path:
    """Return the path of a plot; raise UsageError for a format that there is none of, before anything is planned."""
    found = Path(path)
    if found.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--plot {path[:80]}: a plot is {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}", "name it so")
    if found.suffix.lower() != ".html":
        from kvplan.render.plot import require_matplotlib

        require_matplotlib(path[:80])
    return found


def write_picture(look: Picture, path: Path) -> None:
    """Write a picture in the format of the path's suffix; raise UsageError where the path cannot be written."""
    try:
        if path.suffix.lower() == ".html":
            from kvplan.render.html import html_page

            write_whole(path, html_page(look))
        else:
            from kvplan.render.plot import write_plot

            write_plot(look, path)
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise UsageError(f"cannot write {path}: {why}", "give a file in a folder that can be written to") from error


def _cards(plans: Sequence[Plan]) -> list[int]:
    """Return the plans to draw a curve for: one a card and setting, whatever lengths were asked for beside."""
    first: dict[tuple[object, ...], int] = {}
    for index, made in enumerate(plans):
        settings = made.engine_settings
        name = made.gpu.name if made.gpu else None
        key = (
            made.engine,
            made.engine_version,
            name,
            made.gpu_count,
            tensor_size(made),
            settings.get("kv_cache_dtype"),
        )
        first.setdefault(key, index)
    return list(first.values())[:MAX_CURVES]


def _lengths(made: Plan) -> list[int]:
    """Return the powers of two up to what the model takes, and the length that was asked for."""
    longest = max(made.kv.max_model_len, made.model.length.limit or 0)
    powers = [2**power for power in range(_SHORTEST.bit_length() - 1, longest.bit_length()) if 2**power <= longest]
    return sorted({*powers, made.kv.max_model_len, longest})


def _or_none(again: Callable[[int, int], Plan], index: int, length: int) -> Plan | None:
    """Plan a length; a length that the engine's own rules do not allow has no place on a curve."""
    try:
        return again(index, length)
    except KvplanError:
        return None
