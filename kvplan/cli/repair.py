"""`kvplan size … --fit`: the plan, and the cheapest change that makes it start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.cli.output import write_json, write_lines
from kvplan.engine.args import engine_args
from kvplan.errors import NO, OK
from kvplan.fit.ask import Asker
from kvplan.fit.change import repair
from kvplan.hardware import parse_gpu
from kvplan.model.spec import ModelSpec
from kvplan.planner import Plan
from kvplan.render.markdown import plan_markdown
from kvplan.render.repair import repair_lines, repair_object
from kvplan.render.text import plan_text


def fit_one(spec: ModelSpec, engine: str, flags: Mapping[str, Any], made: Plan, output: str, *, local: bool) -> int:
    """Write one plan with what makes it start; exit with 1 where it does not start as it stands.

    `flags` are those of the command, the card among them.
    """
    gpu = flags.get("gpu")
    args = engine_args({name: value for name, value in flags.items() if name != "gpu"}, engine.partition("@")[0])
    count = parse_gpu(gpu)[1] if gpu is not None else None
    found = repair(Asker.of(engine, spec, args, local=local), made.gpu, most_gpus=count)
    if output == "json":
        write_json({**made.to_dict(), "fit": repair_object(found)})
    elif output == "markdown":
        write_lines([*plan_markdown(made), *(f"- {line}" for line in repair_lines(found))])
    else:
        write_lines([*plan_text(made), "", *(f"  {line}" for line in repair_lines(found))])
    return OK if made.fits else NO
