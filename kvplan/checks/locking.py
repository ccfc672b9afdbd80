"""From a run to a lock, and from a lock or a check's JSON to the totals that a diff compares."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from kvplan import __version__
from kvplan.checks.places import covers, seen_from
from kvplan.checks.run import Run
from kvplan.engine.args import EngineArgs
from kvplan.engine.registry import find_engine
from kvplan.errors import KvplanError, UnreadableInput
from kvplan.manifests.files import LIMIT
from kvplan.sources.checkpoint import Checkpoint
from kvplan.sources.document import parse_object
from kvplan.sources.lockfile import Lock, Traced, read_lock
from kvplan.units import binary

MAX_BASE = 8 * LIMIT  # a check's JSON of 1,000 deployments has 6 MB


@dataclass(frozen=True, slots=True)
class Locked:
    """A lock to write, how many of its deployments are as they were, and how many of the old ones are no more."""

    lock: Lock
    kept: int
    gone: int


def lock_of(done: Run) -> Locked:
    """Return what is to be locked: the models that a plan rests on, and the totals of each plan.

    What the lock says of files that were not asked for stays. Raises UnreadableInput where that cannot be read.
    """
    old = _old(done)
    outside = {file for file in _files(old) if not _covered(done, file)}
    kept = {key: entry for key, entry in old.deployments.items() if _file(key) in outside}
    new = {case.key: case.totals for case in done.cases if case.totals is not None}
    files = _users(done, old, outside)
    read = done.models.checkpoints
    models = {name: _pruned(read[name]) if name in read else old.models[name] for name in files}
    weights = {name: _weight_bytes(name, done) if name in read else old.weight_bytes[name] for name in files}
    gone = len(old.deployments.keys() - kept.keys() - new.keys())
    return Locked(Lock(__version__, models, weights, files, {**kept, **new}), len(kept), gone)


def _old(done: Run) -> Lock:
    """Return the lock as it was: an empty one where there is none, or a damaged one of which nothing would stay."""
    if not done.lock_path.is_file():
        return Lock(__version__)
    try:
        return read_lock(done.lock_path)
    except UnreadableInput:
        if _covered(done, "."):
            return Lock(__version__)
        raise


def is_locked(done: Run, key: str) -> bool:
    """Say whether a deployment has an entry in the lock as it was."""
    return key in _old(done).deployments


def is_known(done: Run, file: str) -> bool:
    """Say whether the lock as it was has entries of a file, which is named as the current folder sees it."""
    return seen_from(done.lock_path.parent, file) in _files(_old(done))


def _covered(done: Run, file: str) -> bool:
    return covers(done.lock_path.parent, done.paths, file)


def is_asked(done: Run, key: str) -> bool:
    """Say whether a deployment of a lock lies in the files that a run was asked for."""
    return _covered(done, _file(key))


def _file(key: str) -> str:
    return key.partition("::")[0]


def _files(lock: Lock) -> set[str]:
    return {_file(key) for key in lock.deployments} | {file for files in lock.files.values() for file in files}


def _users(done: Run, old: Lock, outside: set[str]) -> dict[str, tuple[str, ...]]:
    """Return the files that use each model which is to be locked, one without a plan among them: it is read, too."""
    users: dict[str, set[str]] = {}
    for reference, files in old.files.items():
        left = outside.intersection(files)
        if left or (outside and not files):
            users[reference] = left
    for case in done.cases:
        for reference in case.references & done.models.checkpoints.keys():
            users.setdefault(reference, set()).add(case.file)
    return {reference: tuple(sorted(files)) for reference, files in users.items()}


def _weight_bytes(reference: str, done: Run) -> int | None:
    """Return the bytes of the weights on one rank that holds all of them."""
    try:
        spec = done.models.spec(reference)
        return find_engine("vllm")(spec, EngineArgs(), None, 1, None).weights_per_rank
    except KvplanError:
        return None


def _pruned(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint with the fields of its config that were read."""
    config = checkpoint.config.kept() if isinstance(checkpoint.config, Traced) else checkpoint.config
    return replace(checkpoint, config=config)


def base_totals(path: str, stdin: BinaryIO, done: Run) -> dict[str, dict[str, Any] | None]:
    """Return the totals by deployment of a kvplan.lock or of the JSON of a check; raises UnreadableInput.

    The check's paths are read as the current folder's, in which it ran, and become those of the lock.
    """
    name = "stdin" if path == "-" else path[:200]
    try:
        with nullcontext(stdin) if path == "-" else Path(path).open("rb") as file:
            data = file.read(MAX_BASE + 1)
    except (OSError, ValueError) as error:
        raise UnreadableInput(f"cannot read {name}", "give a kvplan.lock, or the JSON of a check") from error
    if len(data) > MAX_BASE:
        raise UnreadableInput(f"{name} is larger than {binary(MAX_BASE)}", "give a kvplan.lock, or the JSON of a check")
    content = parse_object(data, name)
    found = content.get("deployments")
    if isinstance(found, dict):
        return {key: entry for key, entry in found.items() if isinstance(entry, dict)}
    if isinstance(found, list):
        return {_key(entry, done): _totals(entry.get("plan")) for entry in found if isinstance(entry, dict)}
    raise UnreadableInput(f"{name} is neither a kvplan.lock nor the JSON of a check", "give one of the two")


def _key(entry: dict[str, Any], done: Run) -> str:
    file = str(entry.get("file")).replace("\0", "")  # which no path holds
    return f"{seen_from(done.lock_path.parent, file)}::{entry.get('where')}"


def _totals(plan: Any) -> dict[str, Any] | None:
    """Return the totals of a plan's JSON object, as `Case.totals` has them."""
    try:
        kv, gpu = plan["kv"], plan["gpu"]
        concurrency = kv["max_concurrency"]
        return {
            "engine": f"{plan['engine']['name']}@{plan['engine']['version']}",
            "model": plan["model"]["id"],
            "gpu": gpu["name"] if gpu is not None else None,
            "gpus": gpu["count"] if gpu is not None else None,
            "weights_bytes_per_rank": plan["weights"]["bytes_per_rank"],
            "kv_bytes": plan["budget"]["kv_bytes"],
            "bytes_per_token": kv["bytes_per_token"],
            "tokens": kv["tokens"],
            "max_concurrency": round(concurrency, 2) if concurrency is not None else None,
            "max_model_len": kv["max_model_len"],
            "verdict": plan["verdict"],
        }
    except (TypeError, KeyError):
        return None
