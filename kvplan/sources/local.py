"""A checkpoint on this disk: a folder with a config.json, or a config.json itself."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from kvplan.errors import UnknownModel, UnreadableInput
from kvplan.sources.checkpoint import Checkpoint
from kvplan.sources.document import lacks_config, read_object, reason, refuse_gguf, shown, tokenizer_limit

_PATH_STARTS = ("./", "../", "/", "~")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
_LISTED = 1000  # names of a folder that are looked at for a message


def is_path(model: str) -> bool:
    """Tell a path from an id: it lies on this disk, or is written as a path is, or names a .json or .gguf file.

    `owner/name` is a path only where such a folder exists, as the engines have it.
    """
    if model in (".", "..") or model.startswith(_PATH_STARTS) or model.lower().endswith((".json", ".gguf")):
        return True
    return os.path.exists(model)  # noqa: PTH110  # Path.exists raises for a name that is too long or holds a NUL


def load_local(model: str) -> Checkpoint:
    """Read config.json and, where they lie beside it, hf_quant_config.json and tokenizer_config.json.

    Beside a file with another name than config.json nothing is looked for: those would be another model's.
    Raises UnknownModel where there is no such path, UnreadableInput where it cannot be read.
    """
    if "\0" in model:
        raise UnknownModel(f"no folder or file {shown(model)}", "a path cannot hold a NUL")
    path = Path(os.path.expanduser(model))  # noqa: PTH111  # Path.expanduser raises for a user that does not exist
    name = shown(model)
    if model.lower().endswith(".gguf"):
        raise refuse_gguf(name)
    try:
        is_folder = path.is_dir()
        is_there = is_folder or path.exists()
    except OSError as error:
        raise UnreadableInput(f"cannot read {name}: {reason(error)}", "give a path that can be read") from error
    if not is_there and not path.is_symlink():
        raise UnknownModel(f"no folder or file {name}", "give a folder with a config.json, a config.json, or an id")
    if not is_folder:
        if path.suffix in _WEIGHTS:
            raise UnreadableInput(f"{name} is a file of weights", "give the folder that holds it, or its config.json")
        folder, is_config, source = path.parent, path.name == "config.json", "file"
        config = read_object(path, name)
    else:
        folder, is_config, source = path, True, "folder"
        if not os.path.lexists(path / "config.json"):
            raise lacks_config(name, _names(path))
        config = read_object(path / "config.json")
    quant = folder / "hf_quant_config.json"
    tokenizer = folder / "tokenizer_config.json"
    return Checkpoint(
        id=model,
        source=source,
        config=config,
        quant_config=read_object(quant) if is_config and os.path.lexists(quant) else None,
        tokenizer_max_length=tokenizer_limit(read_object(tokenizer))
        if is_config and os.path.lexists(tokenizer)
        else None,
    )


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _LISTED)]
    except OSError as error:
        raise UnreadableInput(
            f"cannot read {shown(str(folder))}: {reason(error)}", "give a path that can be read"
        ) from error
