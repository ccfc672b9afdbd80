"""`kvplan lock [PATHS]`: write kvplan.lock."""

import typer

from kvplan.cli.checking import Configuration, EnvironmentFlag, GpuName, Isolated, Paths, StdinName, Variables
from kvplan.errors import OK, UNREACHABLE, USAGE, HubUnreachable, UnreadableInput


def command(
    paths: Paths = None,
    gpu: GpuName = None,
    variables: Variables = None,
    environment: EnvironmentFlag = False,
    stdin_name: StdinName = "-",
    config: Configuration = None,
    no_config: Isolated = False,
) -> int:
    """Pin the models of all deployments and what is planned for them, for `kvplan check --locked` and `kvplan diff`."""
    import os
    import sys

    from kvplan.checks.locking import is_known, is_locked, lock_of
    from kvplan.checks.run import run
    from kvplan.cli.checking import settings_of
    from kvplan.sources.lockfile import lock_text
    from kvplan.sources.whole import write_whole
    from kvplan.units import counted

    done = run(settings_of(paths, False, gpu, variables, environment, stdin_name, config, no_config), fresh=True)
    name = os.path.relpath(done.lock_path)
    unasked = [case for case in done.cases if not case.reachable]
    lost = next((case for case in unasked if is_locked(done, case.key)), None)
    if lost is not None:
        raise HubUnreachable(f"{lost.key} cannot be locked anew: {lost.unplanned}", f"{name} is left as it was")
    unread = [problem for problem in done.problems if problem.grave]
    grave = next((problem for problem in unread if is_known(done, problem.file)), None)
    if grave is not None:
        raise UnreadableInput(f"{grave.file}:{grave.place.line}: {grave.message}", f"{name} is left as it was")
    locked = lock_of(done)
    try:
        write_whole(done.lock_path, lock_text(locked.lock))
    except OSError as error:
        raise typer.BadParameter(f"cannot write {done.lock_path}: {(error.strerror or '').lower()}") from error
    for case in done.cases:
        if case.plan is None:
            sys.stderr.write(f"note: {case.key} is not locked: {case.unplanned}\n")
    for problem in done.problems:
        sys.stderr.write(f"note: {problem.file}:{problem.place.line}: {problem.message}\n")
    counts = f"{counted(len(locked.lock.models), 'model')}, {counted(len(locked.lock.deployments), 'deployment')}"
    asked = ", ".join("stdin" if path == "-" else path for path in paths) if paths else "the current folder"
    kept = f", {locked.kept} of them kept, not in {asked}" if locked.kept else ""
    gone = f"; {locked.gone} gone" if locked.gone else ""
    sys.stdout.write(f"{name}: {counts}{kept}{gone}\n")
    return USAGE if unread else UNREACHABLE if unasked else OK
