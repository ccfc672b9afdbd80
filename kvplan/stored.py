"""When the files of a checkpoint are asked what they store: where no rule computes it, and for `--explain`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.errors import HubUnreachable
from kvplan.model.spec import ModelSpec

if TYPE_CHECKING:
    from kvplan.sources.headers import Headers

_SECONDS = 20.0  # for a figure that is modelled either way


def with_stored(model: ModelSpec) -> ModelSpec:
    """Return the model with the tensors of its files, where its architecture has no rule that computes them.

    Raises UnreadableInput for files that lie. A Hub that does not answer leaves the model as it is.
    """
    if model.source not in ("folder", "hub"):
        return model
    from kvplan.model.weights import is_computed  # noqa: PLC0415  # a built-in has no files to ask

    if is_computed(model):
        return model
    try:
        headers = stored_headers(model, seconds=_SECONDS)
    except HubUnreachable:
        return model
    return replace(model, stored=headers.tensors) if headers is not None else model


def stored_headers(model: ModelSpec, *, seconds: float = 60.0) -> Headers | None:
    """Return what the files of a folder or a repository store; None for a built-in, and where there are no safetensors.

    Raises UnreadableInput for files that lie, HubUnreachable where the Hub does not answer.
    """
    if model.source == "folder":
        from kvplan.sources.stored import stored_in  # noqa: PLC0415

        return stored_in(Path(model.id).expanduser())
    if model.source == "hub":
        from kvplan.sources.stored_hub import stored_on_hub  # noqa: PLC0415

        return stored_on_hub(model.id, model.revision, seconds=seconds)
    return None
