"""A run: paths in, report out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kvplan.checks.case import Case, Promise
from kvplan.checks.finding import Finding, Report
from kvplan.checks.models import Models, NotLocked
from kvplan.checks.places import STDIN, from_root, seen_from
from kvplan.checks.planning import Planned, card, card_name, plan_deployment, stated_release
from kvplan.checks.registry import rules
from kvplan.checks.suppression import suppressed
from kvplan.config import LOCK, Config, DeploymentSetting, find_config, git_root, load_config
from kvplan.engine.registry import find_engine
from kvplan.errors import UnknownEngine, UnknownGpu, UsageError
from kvplan.hardware import find_gpu
from kvplan.manifests.deployment import Deployment
from kvplan.manifests.read import Problem, Reading, read_paths
from kvplan.manifests.variables import Scope, layer
from kvplan.sources.lockfile import Lock, read_lock


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is asked for. `config` None: found by itself, unless `no_config`."""

    paths: tuple[str, ...] = (".",)
    config: Path | None = None
    no_config: bool = False
    locked: bool = False
    gpu: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: Callable[[], bytes] = lambda: b""
    stdin_name: str = STDIN


@dataclass(frozen=True, slots=True)
class Run:
    """What a run has read and planned, before any rule speaks; `paths` are what was given, seen from the lock."""

    reading: Reading
    cases: tuple[Case, ...]
    models: Models
    config: Config
    lock_path: Path
    paths: tuple[str, ...]
    problems: tuple[Problem, ...]


def run(settings: Settings, *, fresh: bool = False) -> Run:
    """Read, resolve and plan; raises a KvplanError for settings that cannot be read. `fresh`: look at no lock."""
    folder = Path.cwd()
    path = settings.config or (None if settings.no_config else find_config(folder))
    config = load_config(path) if path is not None else Config()
    if settings.gpu is not None:
        config = config.model_copy(update={"gpu": settings.gpu})
    _check_names(config, path)
    home = _home(path, folder)
    lock_path = home / LOCK
    lock = read_lock(lock_path) if lock_path.is_file() and not fresh else None
    if settings.locked and lock is None:
        raise UsageError(f"--locked needs {LOCK}, and there is none", "run kvplan lock, and commit the file")
    reading = read_paths(
        settings.paths,
        scope=Scope((layer(settings.variables), layer(settings.environment))),
        stdin=settings.stdin,
        stdin_name=settings.stdin_name,
        excluded=lambda file: bool(config.exclude) and config.excludes(seen_from(home, file)),
    )
    models = Models(lock, locked=settings.locked, folder=home)
    cases: list[Case] = []
    problems = list(reading.problems)
    for found in reading.deployments:
        file = seen_from(home, found.file)
        setting = config.setting(file, found.where)
        models.asked.clear()
        try:
            planned = plan_deployment(found, setting, config, models)
        except NotLocked as error:
            problems.append(Problem(found.file, found.place, f"{error.message}: {error.hint}", grave=True))
            planned = Planned(card(found, setting, config), unplanned="not in kvplan.lock")
        cases.append(
            _case(found, file, setting, planned, lock, card_name(found, setting, config), frozenset(models.asked))
        )
    paths = tuple(seen_from(home, settings.stdin_name if path == STDIN else path) for path in settings.paths)
    return Run(reading, tuple(cases), models, config, lock_path, paths, tuple(problems))


def report(done: Run) -> Report:
    """Let the rules speak."""
    findings: list[Finding] = []
    for case in done.cases:
        for rule in rules():
            findings += [
                finding
                for finding in rule.findings(case)
                if not suppressed(finding, case, done.reading.texts, done.config)
            ]
    order = sorted(findings, key=lambda f: (f.file, f.place, f.rule))
    root = git_root(Path.cwd())
    files = {case.deployment.file for case in done.cases} | {problem.file for problem in done.problems}
    paths = {file: from_root(root, file) for file in files}
    return Report(done.cases, tuple(order), done.problems, done.reading.files, paths)


def _home(config: Path | None, folder: Path) -> Path:
    """Return the folder of kvplan.lock: beside the configuration, else the root of the repository, else here."""
    if config is not None:
        parent = Path(os.path.realpath(config.parent))  # a link counts where it stands
        return parent.parent if parent.name == ".github" else parent
    return git_root(folder) or folder


def _check_names(config: Config, path: Path | None) -> None:
    """Raise UsageError for a card or a release of the settings that nobody knows: it would be passed over."""
    try:
        for card in (config.gpu, *(entry.gpu for entry in config.deployments)):
            if card is not None:
                find_gpu(card)
        for engine in (entry.engine for entry in config.deployments):
            if engine is not None:
                find_engine(engine)
    except (UnknownGpu, UnknownEngine) as error:
        said = error.message if path is None else f"{path.name}: {error.message}"
        raise UsageError(said, error.hint) from error


def _case(
    found: Deployment,
    file: str,
    setting: DeploymentSetting,
    planned: Planned,
    lock: Lock | None,
    named: str | None,
    references: frozenset[str],
) -> Case:
    load = setting.workload
    promise = Promise(load.concurrency, load.tokens()) if load is not None and load.concurrency is not None else None
    return Case(
        deployment=found,
        file=file,
        references=references,
        gpu=planned.gpu,
        named_card=named,
        gpus=setting.gpus if setting.gpus is not None else found.topology.gpus,
        spec=planned.spec,
        plan=planned.plan,
        unplanned=planned.unplanned,
        guessed=planned.guessed,
        promise=promise,
        promised=planned.promised,
        locked=lock.deployments.get(f"{file}::{found.where}") if lock is not None else None,
        lock_version=lock.kvplan if lock is not None else None,
        release=stated_release(found, setting),
        reachable=planned.reachable,
        refused=planned.refused,
        replan=planned.replan,
    )
