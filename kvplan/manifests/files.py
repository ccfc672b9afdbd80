"""Which files are read: the given ones, and in a given folder those that may hold serving configuration.

Each is read once, whole, and bounded: no manifest is larger than 4 MiB. A walk follows no symbolic link, so that it
ends and stays below the folder that was given.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath

from kvplan.errors import UnreadableInput
from kvplan.units import MIB, binary

LIMIT = 4 * MIB
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})
_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
_YAML = re.compile(r"---(?:\s|\Z)|[\"']?[A-Za-z0-9_.-]+[\"']?:(?:\s|\Z)|- |\s*[{\[]")


class Form(StrEnum):
    """How a file is written."""

    YAML = "yaml"
    SHELL = "shell"
    DOCKERFILE = "dockerfile"


_SUFFIXES = {
    ".yaml": Form.YAML, ".yml": Form.YAML, ".json": Form.YAML, ".sh": Form.SHELL, ".bash": Form.SHELL,
    ".sbatch": Form.SHELL, ".slurm": Form.SHELL, ".dockerfile": Form.DOCKERFILE, ".containerfile": Form.DOCKERFILE,
}  # fmt: skip
_WALKED = frozenset(_SUFFIXES) - {".json"}  # a folder's JSON is package files and lock files; named, it is read


@dataclass(frozen=True, slots=True)
class Found:
    """A file to read: where it is, what reports call it, and whether it was named itself."""

    path: Path
    name: str
    named: bool


def find(paths: list[str], *, excluded: Callable[[str], bool] = lambda _: False) -> Iterator[Found]:
    """Yield the files of the paths in order, each once; raises UnreadableInput for a path that is not there."""
    seen: set[str] = set()
    for given in paths:
        path = Path(given)
        if path.is_dir():
            found: Iterator[Found] = (f for f in _walk(path) if not excluded(f.name))
        elif os.path.lexists(path):
            found = iter([Found(path, _shown(path), named=True)])
        else:
            raise UnreadableInput(f"no file or folder {given[:200]!r}", "give a manifest, a folder, or - for stdin")
        for file in found:
            real = os.path.realpath(file.path)
            if real not in seen:
                seen.add(real)
                yield file


def _walk(folder: Path) -> Iterator[Found]:
    """Yield the files below a folder, in the order of their names; hidden folders are left out, but for .github."""
    waiting: list[Path | Found] = [folder]
    while waiting:
        here = waiting.pop()
        if isinstance(here, Found):
            yield here
        else:
            waiting += reversed([found for entry in _entries(here) if (found := _kept(here, entry)) is not None])


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            return sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return []  # of a folder that may not be entered, nothing can be said


def _kept(folder: Path, entry: os.DirEntry[str]) -> Path | Found | None:
    path = folder / entry.name
    if entry.is_dir(follow_symlinks=False):
        hidden = entry.name.startswith(".") and entry.name != ".github"
        return None if hidden or entry.name in _SKIPPED else path
    if entry.is_file(follow_symlinks=False) and _is_walked(entry.name):
        return Found(path, _shown(path), named=False)
    return None


def _is_walked(name: str) -> bool:
    return PurePath(name).suffix.lower() in _WALKED or _is_dockerfile(name)


def _is_dockerfile(name: str) -> bool:
    folded = name.lower()
    return folded.split(".")[0] in ("dockerfile", "containerfile")


def _shown(path: Path) -> str:
    """Return the path as reports print it: with forward slashes, relative where it lies below the current folder."""
    try:
        # realpath, unlike Path.resolve, ends at a link that leads to itself
        return Path(os.path.realpath(path)).relative_to(Path.cwd()).as_posix()
    except (ValueError, OSError):
        return path.as_posix()


def read_text(path: Path) -> str:
    """Read a file as UTF-8 with plain line ends; raises UnreadableInput, without the name, for anything else."""
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, _OPEN)) as file:  # needs an opener
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UnreadableInput("not a regular file")
            data = file.read(LIMIT + 1)
    except (OSError, ValueError) as error:
        raise UnreadableInput((getattr(error, "strerror", None) or str(error)).lower()) from error
    return decode(data)


def decode(data: bytes) -> str:
    """Return the text of a file's bytes; raises UnreadableInput where they are no text, or too many."""
    if len(data) > LIMIT:
        raise UnreadableInput(f"larger than {binary(LIMIT)}, which no manifest is")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableInput(f"not UTF-8 text (byte {error.start})") from error
    if "\0" in text:
        raise UnreadableInput(f"not text: a NUL in line {text.count(chr(10), 0, text.index(chr(0))) + 1}")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def form_of(name: str, text: str) -> Form:
    """Tell how a file is written: by its name, else by how it begins."""
    if _is_dockerfile(PurePath(name).name):
        return Form.DOCKERFILE
    known = _SUFFIXES.get(PurePath(name).suffix.lower())
    if known is not None:
        return known
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("# ")), "")
    if first.startswith("#!"):
        return Form.SHELL
    if first.startswith(("FROM ", "ARG ")):
        return Form.DOCKERFILE
    return Form.YAML if _YAML.match(first) else Form.SHELL
