"""The options that `check`, `lock` and `diff` share: which files, what variables stand for, which settings."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvplan.errors import UsageError

if TYPE_CHECKING:
    from kvplan.checks.run import Settings

Paths = Annotated[
    list[str] | None,
    typer.Argument(help="Files and folders, - for stdin; default: the current folder.", show_default=False),
]
LockedFlag = Annotated[
    bool, typer.Option("--locked", help="Take every model from kvplan.lock: offline, the same for all.")
]
GpuName = Annotated[str | None, typer.Option("--gpu", help="The card where a manifest names none.", show_default=False)]
Variables = Annotated[
    list[str] | None, typer.Option("--set", metavar="K=V", help="A variable of the manifests; repeatable.")
]
EnvironmentFlag = Annotated[bool, typer.Option("--env", help="Take variables from the environment, too.")]
StdinName = Annotated[str, typer.Option("--stdin-filename", help="What stdin is called in reports.")]
Configuration = Annotated[
    str | None, typer.Option("--config", help="Settings; default: kvplan.yaml.", show_default=False)
]
Isolated = Annotated[bool, typer.Option("--no-config", "--isolated", help="Read no settings.")]


def settings_of(
    paths: list[str] | None,
    locked: bool,
    gpu: str | None,
    variables: list[str] | None,
    environment: bool,
    stdin_name: str,
    config: str | None,
    no_config: bool,
) -> "Settings":
    """Return the settings of a run; raises UsageError."""
    from kvplan.checks.run import Settings

    if config is not None and no_config:
        raise UsageError("--config and --no-config exclude each other")
    if gpu is not None:
        from kvplan.hardware import check_planned, find_gpu

        check_planned(find_gpu(gpu))
    return Settings(
        paths=tuple(paths) if paths else (".",),
        config=Path(config) if config is not None else None,
        no_config=no_config,
        locked=locked,
        gpu=gpu,
        variables=dict(_pair(each) for each in variables or ()),
        environment=_environment() if environment else {},
        stdin=_stdin,
        stdin_name=stdin_name,
    )


# A manifest of a pull request must not be able to print the runner's secrets, or to ask the Hub for them
_SECRET = re.compile(r"TOKEN(?!S)|SECRET|PASSW|CREDENTIAL|(?:API|ACCESS|PRIVATE)_?KEY|AUTH", re.ASCII | re.IGNORECASE)


def _environment() -> dict[str, str]:
    """Return the variables of the process, without those whose names say that they are secret."""
    return {name: value for name, value in os.environ.items() if _SECRET.search(name) is None}


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--set {text[:80]!r} is not NAME=VALUE", "as in --set TP=4")
    return name, value


def _stdin() -> bytes:
    from kvplan.manifests.files import LIMIT

    return sys.stdin.buffer.read(LIMIT + 1)
