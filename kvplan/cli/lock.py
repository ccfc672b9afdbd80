"""`kvplan lock [PATHS]`: write kvplan.lock."""

import typer

from kvplan.cli.checking import Configuration, EnvironmentFlag, GpuName, Isolated, Paths, Variables
from kvplan.errors import OK, USAGE, HubUnreachable


def command(
    paths: Paths = None,
    gpu: GpuName = None,
    variables: Variables = None,
    environment: EnvironmentFlag = False,
    config: Configuration = None,
    no_config: Isolated = False,
) -> int:
    """Pin the models of all deployments and what is planned for them, for `kvplan check --locked` and `kvplan diff`."""
    import sys

    from kvplan.checks.locking import lock_of
    from kvplan.checks.run import run
    from kvplan.cli.checking import settings_of
    from kvplan.sources.lockfile import lock_text
    from kvplan.sources.whole import write_whole

    done = run(settings_of(paths, False, gpu, variables, environment, "-", config, no_config), fresh=True)
    unasked = next((case for case in done.cases if not case.reachable), None)
    if unasked is not None:
        hint = f"{done.lock_path.name} is left as it was"
        raise HubUnreachable(f"{unasked.deployment.key} is not locked: {unasked.unplanned}", hint)
    lock = lock_of(done)
    try:
        write_whole(done.lock_path, lock_text(lock))
    except OSError as error:
        raise typer.BadParameter(f"cannot write {done.lock_path}: {(error.strerror or '').lower()}") from error
    for case in done.cases:
        if case.plan is None:
            sys.stderr.write(f"note: {case.deployment.key} is not locked: {case.unplanned}\n")
    for problem in done.problems:
        sys.stderr.write(f"note: {problem.file}:{problem.place.line}: {problem.message}\n")
    sys.stdout.write(f"{done.lock_path.name}: {len(lock.models)} models, {len(lock.deployments)} deployments\n")
    return USAGE if any(problem.grave for problem in done.problems) else OK
