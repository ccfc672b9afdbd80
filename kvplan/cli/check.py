"""`kvplan check [PATHS]`: what is wrong with the deployments of manifests, scripts and compose files."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

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
from kvplan.errors import NO, OK, UNREACHABLE, USAGE, UsageError

if TYPE_CHECKING:
    from kvplan.checks.finding import Report


class Format(StrEnum):
    """How the report is written."""

    text = "text"
    json = "json"
    markdown = "markdown"
    github = "github"
    gitlab = "gitlab"
    sarif = "sarif"
    junit = "junit"


class FailOn(StrEnum):
    """From which severity on the check fails."""

    error = "error"
    warning = "warning"
    note = "note"
    never = "never"


def command(
    paths: Paths = None,
    output: Annotated[Format, typer.Option("--format", help="How to write the report to stdout.")] = Format.text,
    files: Annotated[
        list[str] | None, typer.Option("--output", metavar="FORMAT=PATH", help="Write it to a file, too; repeatable.")
    ] = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="The severity that fails the check.")] = FailOn.error,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail where a deployment cannot be planned on a card.")
    ] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 whatever is found.")] = False,
    require_inputs: Annotated[
        bool, typer.Option("--require-inputs", help="Fail where no deployment is found.")
    ] = False,
    locked: LockedFlag = False,
    gpu: GpuName = None,
    variables: Variables = None,
    environment: EnvironmentFlag = False,
    stdin_name: StdinName = "-",
    config: Configuration = None,
    no_config: Isolated = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Findings only.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="The ledger of each plan, too.")] = False,
) -> int:
    """Check deployments, and exit with 1 where one would not start or would not hold what is promised."""
    import os
    import sys
    from secrets import token_hex

    from kvplan.checks.finding import Severity
    from kvplan.checks.run import report as report_of
    from kvplan.checks.run import run
    from kvplan.cli.checking import settings_of
    from kvplan.units import counted

    wanted = [_target(each) for each in files or ()]
    done = run(settings_of(paths, locked, gpu, variables, environment, stdin_name, config, no_config))
    report = report_of(done)
    for name, path in wanted:
        _write_file(path, _rendered(name, report, quiet=quiet, verbose=verbose))
    text = _rendered(output, report, quiet=quiet, verbose=verbose)
    if output is Format.text and os.environ.get("GITHUB_ACTIONS") == "true":
        # a file's name may begin like a workflow command: GitHub is told to take none of them from the text
        token = token_hex(16)
        text = f"::stop-commands::{token}\n{text}::{token}::\n"
        text += _rendered(Format.github, report, quiet=quiet, verbose=verbose)
    sys.stdout.write(text)
    for problem in report.problems:
        if not problem.grave and output is not Format.text:
            sys.stderr.write(f"note: {problem.file}:{problem.place.line}: {problem.message}\n")
    unplanned = _unplanned(report) if strict else []
    sys.stderr.write("".join(f"--strict: {line}\n" for line in unplanned))
    if not report.cases:
        sys.stderr.write(f"no deployment found in {counted(report.files, 'file')}\n")
        if require_inputs:
            return USAGE
    if report.grave:
        return USAGE
    if strict and any(not case.reachable for case in report.cases):
        return UNREACHABLE
    unread = strict and bool(report.problems)
    worst = report.worst()
    failed = fail_on is not FailOn.never and worst is not None and worst >= Severity[fail_on.value.upper()]
    return NO if (failed or unplanned or unread) and not exit_zero else OK


def _unplanned(report: "Report") -> list[str]:
    """Name the deployments of which it is not known whether they would start."""
    from kvplan.errors import printable
    from kvplan.render.check_text import verdict

    unsure = (case for case in report.cases if not case.is_fully_planned)
    return [printable(f"{case.key} is not fully planned: {verdict(case)}") for case in unsure]


def _target(text: str) -> tuple[Format, str]:
    name, equals, path = text.partition("=")
    if not equals or not path or name not in list(Format):
        raise UsageError(f"--output {text[:80]!r} is not FORMAT=PATH", f"a format is one of {', '.join(Format)}")
    return Format(name), path


def _write_file(path: str, content: str) -> None:
    from kvplan.sources.whole import write_whole

    try:
        write_whole(path, content)
    except OSError as error:
        raise UsageError(f"cannot write {path[:200]}: {(error.strerror or 'no reason').lower()}") from error


def _rendered(name: Format, report: object, *, quiet: bool, verbose: bool) -> str:
    """Return the report in a format, importing only that one."""
    from kvplan.render.report import rendered

    return rendered(name.value, report, quiet=quiet, verbose=verbose)
