"""`kvplan diff BASE [PATHS]`: what a change of manifests does to memory, tokens and requests."""

from typing import Annotated

import typer

from kvplan.cli.checking import (
    Configuration,
    EnvironmentFlag,
    GpuName,
    Isolated,
    LockedFlag,
    Paths,
    StdinName,
    Variables,
)
from kvplan.errors import OK


def command(
    base: Annotated[str, typer.Argument(help="A kvplan.lock or the JSON of a check; - for stdin.")],
    paths: Paths = None,
    locked: LockedFlag = False,
    gpu: GpuName = None,
    variables: Variables = None,
    environment: EnvironmentFlag = False,
    stdin_name: StdinName = "-",
    config: Configuration = None,
    no_config: Isolated = False,
) -> int:
    """Print a Markdown table of the deployments whose plans differ from those of a base."""
    import sys

    from kvplan.checks.locking import base_totals, is_asked
    from kvplan.checks.run import run
    from kvplan.cli.checking import settings_of
    from kvplan.cli.output import write_lines
    from kvplan.render.diff import diff_markdown

    done = run(settings_of(paths, locked, gpu, variables, environment, stdin_name, config, no_config))
    before = base_totals(base, sys.stdin.buffer, done)
    asked = {key: totals for key, totals in before.items() if is_asked(done, key)}
    after = {case.key: case.totals for case in done.cases}
    write_lines(diff_markdown(asked, after, left_out=len(before) - len(asked)))
    return OK
