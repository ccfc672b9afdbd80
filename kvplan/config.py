"""kvplan.yaml: what manifests do not say (the card of a cluster, what lies behind `pvc://`, the load that is promised).

Found from the current folder upwards to the root of the Git repository: kvplan.yaml, .github/kvplan.yaml, or
`[tool.kvplan]` of pyproject.toml. Without a repository only the current folder is looked at, so that no file of a
stranger's parent folder is ever picked up.
"""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kvplan.errors import UnreadableInput, UsageError
from kvplan.manifests.files import read_text
from kvplan.manifests.flags import value_of
from kvplan.manifests.tree import BadYaml, parse, plain_value, repeated

FILES = ("kvplan.yaml", ".github/kvplan.yaml")
LOCK = "kvplan.lock"


class _Object(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Matching(_Object):
    """What an entry is about: `*` stands for any characters, `/` among them.

    Paths lead from the folder of kvplan.yaml, or of .github, whatever the current folder is.
    """

    path: str = Field(default="*", description="the manifest's path from the folder of the settings")
    name: str = Field(default="*", description="the deployment's name within the file, as reports print it")

    def matches(self, file: str, where: str) -> bool:
        """Say whether a deployment is meant."""
        return fnmatchcase(file, self.path) and fnmatchcase(where, self.name)


class Workload(_Object):
    """The load that a deployment is promised to hold."""

    concurrency: Annotated[int, Field(ge=1, le=10**6)] | None = Field(
        default=None, description="requests at the same time"
    )
    context_p95: int | str | None = Field(
        default=None, description="tokens of such a request, as 8192 or 8k; default: all"
    )

    def tokens(self) -> int | None:
        """Return context_p95 as a number; raises UsageError."""
        value = value_of(str(self.context_p95), "human_int") if self.context_p95 is not None else None
        if value is not None and (not isinstance(value, int) or not 1 <= value <= 2**31):
            raise UsageError(f"context_p95: {self.context_p95!r} is no count of tokens", "write 8192, or 8k for 8,000")
        return value


class DeploymentSetting(_Matching):
    """What the manifest of a deployment does not say."""

    gpu: str | None = Field(default=None, description="the card, by any of its names")
    gpus: Annotated[int, Field(ge=1, le=4096)] | None = Field(default=None, description="GPUs of one pod")
    engine: str | None = Field(default=None, description="the engine's release, as vllm@0.33")
    model: str | None = Field(default=None, description="the model: a Hub id, or a folder beside this file")
    workload: Workload | None = None


class IgnoredRule(_Matching):
    """A rule that is switched off, and why."""

    rule: str = Field(pattern=r"^KVP[0-9]{3}$")
    reason: str = Field(min_length=1)


class VerifySetting(_Object):
    """What `kvplan verify` verifies where the command line names no model."""

    model: str = Field(description="the model, as on the command line")
    args: dict[str, int | float | bool | str] = Field(default={}, description="its flags: {max_model_len: 8192}")


class Config(_Object):
    """The settings of `kvplan check`, `lock` and `diff`."""

    gpu: str | None = Field(default=None, description="the card of every deployment whose manifest names none")
    models: dict[str, str] = Field(
        default={}, description="what an opaque reference stands for: pvc://, s3://, a path, a served name, a preset"
    )
    deployments: tuple[DeploymentSetting, ...] = Field(default=(), description="the first entry that matches says it")
    ignore: tuple[IgnoredRule, ...] = ()
    exclude: tuple[str, ...] = Field(default=(), description="paths, from the same folder, that a walk leaves out")
    verify: VerifySetting | None = None

    def setting(self, file: str, where: str) -> DeploymentSetting:
        """Return what is said of a deployment: of each field the first entry that matches and has it."""
        found: dict[str, Any] = {}
        for entry in self.deployments:
            if entry.matches(file, where):
                found = {name: getattr(entry, name) for name in entry.model_fields_set} | found
        return DeploymentSetting(**found)

    def excludes(self, file: str) -> bool:
        """Say whether a walk leaves a file out."""
        return any(fnmatchcase(file, pattern) for pattern in self.exclude)


def git_root(folder: Path) -> Path | None:
    """Return the root of the Git repository that a folder is in, None where it is in none."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def find_config(folder: Path) -> Path | None:
    """Return the configuration that is nearest to a folder, up to the root of its repository."""
    root = git_root(folder)
    for parent in (folder, *folder.parents) if root is not None else (folder,):
        for name in FILES:
            if (parent / name).exists():  # what is no file is refused by its reader, not passed over
                return parent / name
        project = parent / "pyproject.toml"
        if project.is_file() and _tool_table(project, asked=False) is not None:
            return project
        if parent == root:
            break
    return None


def load_config(path: Path) -> Config:
    """Read a configuration; raises UnreadableInput or UsageError, which name the file and the field."""
    name = path.name
    if path.suffix == ".toml":
        try:
            content: Any = _tool_table(path, asked=True)
        except UnreadableInput as error:
            raise UnreadableInput(f"cannot read {name}: {error.message}", "give a file that can be read") from error
        if content is None:
            raise UnreadableInput(f"{name} has no [tool.kvplan]", "kvplan schema config describes it")
    else:
        try:
            roots = parse(read_text(path))
            content = plain_value(roots[0]) if roots else {}
            twice = repeated(roots[0]) if roots else []
        except BadYaml as error:
            hint = "kvplan schema config describes the file"
            raise UnreadableInput(f"{name}:{error.place.line}: {error.message}", hint) from error
        except UnreadableInput as error:
            raise UnreadableInput(f"cannot read {name}: {error.message}", "give a file that can be read") from error
        if twice:
            message = f"{name}:{twice[0].place.line}: the key {twice[0].key[:40]!r} is given twice"
            raise UnreadableInput(message, "keep one of the two")
    try:
        return Config.model_validate(content if content is not None else {})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UsageError(
            f"{name}: {where}: {first['msg'].lower()}", "kvplan schema config describes the file"
        ) from error


def _tool_table(path: Path, *, asked: bool) -> dict[str, Any] | None:
    """Return `[tool.kvplan]` of a pyproject.toml, None where it has none.

    A file that is no TOML is none of kvplan's, unless it was asked for or names the table: then UnreadableInput.
    """
    text = read_text(path) if asked else _text(path)
    try:
        found = tomllib.loads(text).get("tool", {})
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, a list in a list in a list
        if asked or "[tool.kvplan" in text:
            raise UnreadableInput(f"{path.name} is no TOML: {str(error)[:100]}", "mend it, or --no-config") from error
        return None
    table = found.get("kvplan") if isinstance(found, dict) else None
    return table if isinstance(table, dict) else None


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except UnreadableInput:
        return ""
