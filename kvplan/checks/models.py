"""The checkpoints of deployments: from the lock, the built-ins, the Hub, or a folder that kvplan.yaml names.

Never from a path that a manifest names: `/models/x` is a folder of a container, not of this machine.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvplan.errors import HubUnreachable, KvplanError, UnknownModel, UsageError
from kvplan.model.overrides import overridden
from kvplan.model.read import read_model
from kvplan.model.spec import ModelSpec
from kvplan.sources.builtin import builtin
from kvplan.sources.checkpoint import Checkpoint
from kvplan.sources.lockfile import Lock, Traced

_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}(?:/[A-Za-z0-9][A-Za-z0-9_.-]{0,95})?", re.ASCII)
_PATIENCE = 10.0  # seconds; a Hub that was waited for that long is not asked again in the same run


class NotLocked(UsageError):
    """A model that the lock does not hold, asked for with --locked."""


class Models:
    """Reads each checkpoint once, and remembers the fields that are read. `locked`: only from the lock.

    `asked`: the references since whoever plans a deployment cleared it.
    """

    def __init__(self, lock: Lock | None, *, locked: bool = False, folder: Path | None = None) -> None:
        self.lock = lock
        self.locked = locked
        self.folder = folder
        self.checkpoints: dict[str, Checkpoint] = {}
        self.asked: set[str] = set()
        self._specs: dict[tuple[str, str], ModelSpec | KvplanError] = {}
        self._unreachable: HubUnreachable | None = None

    def spec(self, reference: str, overrides: Mapping[str, Any] | None = None) -> ModelSpec:
        """Return the model of a reference, `owner/name` or `owner/name@revision`; raises a KvplanError.

        `overrides` are fields of its config.json to change before it is read.
        """
        self.asked.add(reference)
        key = (reference, json.dumps(overrides or {}, sort_keys=True, default=str))
        if key not in self._specs:
            try:
                if reference not in self.checkpoints:
                    checkpoint = self._checkpoint(reference)
                    self.checkpoints[reference] = replace(checkpoint, config=Traced(checkpoint.config))
                traced = self.checkpoints[reference]
                config = overridden(traced.config, overrides) if overrides else traced.config
                self._specs[key] = read_model(replace(traced, config=config))
            except KvplanError as error:
                self._specs[key] = error
        found = self._specs[key]
        if isinstance(found, KvplanError):
            raise found
        return found

    def _checkpoint(self, reference: str) -> Checkpoint:
        if self.lock is not None and reference in self.lock.models:
            return self.lock.models[reference]
        if self.locked:
            raise NotLocked(f"{reference} is not in kvplan.lock", "run kvplan lock, and commit the file")
        if reference.startswith(("./", "../")) and self.folder is not None:
            from kvplan.sources.local import load_local  # noqa: PLC0415

            folder = Path(os.path.realpath(self.folder / reference))
            if not folder.is_relative_to(os.path.realpath(self.folder)):
                raise UnknownModel(
                    f"{reference[:120]} lies outside of the folder of kvplan.yaml", "give a folder below it"
                )
            return load_local(str(folder))
        name, _, revision = reference.partition("@")
        if _HUB_ID.fullmatch(name) is None:
            raise UnknownModel(f"{reference[:120]!r} is no Hub id", "name it under models: in kvplan.yaml")
        found = builtin(name)
        if found is not None and revision in ("", found.revision):
            return found
        return self._from_hub(name, revision or None)

    def _from_hub(self, name: str, revision: str | None) -> Checkpoint:
        if self._unreachable is not None:
            raise self._unreachable
        from kvplan.sources.hub import load_hub  # noqa: PLC0415  # the library behind it costs 0.2 s

        begin = time.monotonic()
        try:
            return load_hub(name, revision=revision)
        except HubUnreachable as error:
            # what is not about this repository, or took long, will be the same for the next one
            if name not in error.message or time.monotonic() - begin > _PATIENCE:
                self._unreachable = error
            raise
