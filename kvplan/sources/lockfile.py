"""kvplan.lock: the checkpoints that deployments use, pinned, and what was planned: offline, and the same for all.

A model's entry holds the commit and the fields of config.json that planning reads, so that a check needs neither the
network nor a token. JSON, sorted, one value a line, so that a change of it reads well in a review.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from kvplan.errors import UnreadableInput
from kvplan.record import dataclass
from kvplan.sources.checkpoint import Checkpoint
from kvplan.sources.document import read_object

SCHEMA = 1
_WHOLE = frozenset({"quantization_config", "quantization", "compression_config"})  # engines look at all of these


@dataclass(frozen=True, slots=True)
class Lock:
    """What a lock file holds: checkpoints by the reference that manifests use, totals by deployment.

    Keys of deployments, and `files`, those that use a model (none: not known), are paths from the lock's folder.
    """

    kvplan: str
    models: Mapping[str, Checkpoint] = field(default_factory=dict)
    weight_bytes: Mapping[str, int | None] = field(default_factory=dict)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    deployments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Traced(dict[str, Any]):
    """A config section that remembers which of its fields are read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({key: _traced(key, value) for key, value in values.items()})
        self._read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self._read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a field, and remember that it was asked for."""
        self._read.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            self._read.add(key)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        # overriding it makes `{**config}` ask for each field, where a plain dict would be copied past __getitem__
        return super().__iter__()

    def __len__(self) -> int:
        self._read.update(dict.keys(self))  # id2label: how many there are is what decides
        return super().__len__()

    def items(self) -> Any:
        """Return fields and values; whoever takes all of them reads all of them."""
        self._read.update(self)
        return super().items()

    def values(self) -> Any:
        """Return the values, likewise."""
        self._read.update(self)
        return super().values()

    def copy(self) -> Traced:
        """Return a copy to change, which notes what is read of it here, too."""
        made = Traced({})
        dict.update(made, dict.items(self))
        made._read = self._read
        return made

    def kept(self) -> dict[str, Any]:
        """Return the fields that were read. Of the others the names stay, as some readers look at those alone."""
        return dict(sorted(self._kept()))

    def _kept(self) -> Iterator[tuple[str, Any]]:
        for key, value in dict.items(self):
            if isinstance(value, Traced):
                yield key, value.kept() if key in self._read else {}
            elif key in self._read:
                yield key, value
            elif key.endswith("_config"):
                yield key, None


def _traced(key: str, value: Any) -> Any:
    return Traced(value) if isinstance(value, dict) and key not in _WHOLE else value


def read_lock(path: Path) -> Lock:
    """Read a lock; raises UnreadableInput for a file that is none, or of another schema."""
    content = read_object(path, path.name)
    hint = "run kvplan lock to write it anew"
    if content.get("schema") != SCHEMA:
        raise UnreadableInput(f"{path.name} has schema {str(content.get('schema'))[:20]}, not {SCHEMA}", hint)
    models, deployments = content.get("models"), content.get("deployments")
    if not isinstance(models, dict) or not isinstance(deployments, dict):
        raise UnreadableInput(f"{path.name} is no lock: models and deployments are missing", hint)
    return Lock(
        kvplan=str(content.get("kvplan", "")),
        models={name: _checkpoint(name, entry, path.name) for name, entry in models.items()},
        weight_bytes={name: entry.get("weight_bytes") for name, entry in models.items()},
        files={name: tuple(entry.get("files", ())) for name, entry in models.items()},
        deployments={key: entry for key, entry in deployments.items() if isinstance(entry, dict)},
    )


def _checkpoint(name: str, entry: Any, file: str) -> Checkpoint:
    texts = ("id", "source")
    shaped = (
        isinstance(entry, dict)
        and isinstance(entry.get("config"), dict)
        and all(isinstance(entry.get(key), str) for key in texts)
        and isinstance(entry.get("quant_config"), dict | None)
        and isinstance(entry.get("revision"), str | None)
        and isinstance(entry.get("tokenizer_max_length"), int | None)
        and isinstance(entry.get("files", []), list)
        and all(isinstance(file, str) for file in entry.get("files", []))
    )
    if not shaped:
        raise UnreadableInput(f"{file}: the entry of {name[:80]} is damaged", "run kvplan lock to write it anew")
    return Checkpoint(
        id=entry["id"],
        source=entry["source"],
        config=entry["config"],
        quant_config=entry.get("quant_config"),
        tokenizer_max_length=entry.get("tokenizer_max_length"),
        revision=entry.get("revision"),
    )


def lock_text(lock: Lock) -> str:
    """Return the content of a lock file."""
    models = {
        name: {
            "id": checkpoint.id,
            "source": checkpoint.source,
            "revision": checkpoint.revision,
            "weight_bytes": lock.weight_bytes.get(name),
            "files": list(lock.files.get(name, ())),
            "tokenizer_max_length": checkpoint.tokenizer_max_length,
            "config": checkpoint.config,
            "quant_config": checkpoint.quant_config,
        }
        for name, checkpoint in lock.models.items()
    }
    content = {"schema": SCHEMA, "kvplan": lock.kvplan, "models": models, "deployments": lock.deployments}
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
