"""`kvplan size MODEL --engine a,b`: engines on one card, and which rule makes the difference."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.cli import output as out
from kvplan.engine.names import engine_id, flags_for
from kvplan.engine.registry import find_engine
from kvplan.errors import NO, OK, UsageError
from kvplan.model.spec import ModelSpec
from kvplan.planner import plan
from kvplan.render.compare import compare_lines, differences

_MAX_ENGINES = 8


def compare(
    spec: ModelSpec,
    text: str,
    flags: Mapping[str, Any],
    settings: Sequence[Mapping[str, Any]],
    form: str,
    plot: str | None,
) -> int:
    """Plan each engine with the flags that it has, write them side by side; 1 where one of them would not start."""
    engines = _engines(text)
    if len(settings) > 1:
        raise UsageError("engines are compared on one card, with one value of each flag", "name one card and one value")
    given = {name: value for name, value in {**flags, **settings[0]}.items() if value is not None}
    card = given.pop("gpu", None)
    names = [engine.partition("@")[0] for engine in engines]
    plans, asked = [], []
    for engine, name in zip(engines, names, strict=True):
        taken, missing = flags_for(name, given, names)
        for flag in missing:
            sys.stderr.write(f"note: --{flag.replace('_', '-')} has no counterpart in {name}: its default stands\n")
        plans.append(plan(spec, engine=engine, gpu=card, **taken))
        asked.append((engine, taken))
    if plot is not None or form == "html":
        from kvplan.cli.look import look_at

        look_at(spec, asked, plans, local=False, plot=plot, page=form == "html")
    if form == "json":
        objects = [made.to_dict() for made in plans]
        out.write_json({"schema": 1, "plans": objects, "differences": [one.to_dict() for one in differences(plans)]})
    elif form != "html":
        out.write_lines(compare_lines(plans, markdown=form == "markdown"))
    return NO if any(made.reasons or made.overflows for made in plans) else OK


def _engines(text: str) -> list[str]:
    """Return the engines of `a,b`, each once; raises UsageError or UnknownEngine."""
    found = [engine_id(part) for part in text.split(",")]
    if "" in found or len(set(found)) != len(found) or len(found) > _MAX_ENGINES:
        raise UsageError(f"--engine {text[:60]!r} takes engines, each once, separated by commas", "vllm,sglang")
    for name in found:
        find_engine(name)
    return found
