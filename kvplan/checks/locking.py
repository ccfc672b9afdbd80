"""From a run to a lock, and from a lock or a check's JSON to the totals that a diff compares."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from kvplan import __version__
from kvplan.checks.run import Run
from kvplan.engine.args import EngineArgs
from kvplan.engine.registry import find_engine
from kvplan.errors import KvplanError, UnreadableInput
from kvplan.manifests.files import LIMIT
from kvplan.sources.checkpoint import Checkpoint
from kvplan.sources.document import parse_object
from kvplan.sources.lockfile import Lock, Traced
from kvplan.units import binary

MAX_BASE = 8 * LIMIT  # a check's JSON of 1,000 deployments has 6 MB


def lock_of(done: Run) -> Lock:
    """Return what is to be locked: the models that a plan rests on, and the totals of each plan."""
    deployments = {case.deployment.key: case.totals for case in done.cases if case.totals is not None}
    models, weights = {}, {}
    for reference, checkpoint in done.models.checkpoints.items():
        weights[reference] = _weight_bytes(reference, done)
        models[reference] = _pruned(checkpoint)
    return Lock(__version__, models, weights, deployments)


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


def base_totals(path: str, stdin: BinaryIO) -> dict[str, dict[str, Any] | None]:
    """Return the totals by deployment of a kvplan.lock or of the JSON of a check; raises UnreadableInput."""
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
        return {f"{e.get('file')}::{e.get('where')}": _totals(e.get("plan")) for e in found if isinstance(e, dict)}
    raise UnreadableInput(f"{name} is neither a kvplan.lock nor the JSON of a check", "give one of the two")


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
