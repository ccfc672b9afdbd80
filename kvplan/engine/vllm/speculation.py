"""Speculative decoding in the pool: the draft's layers are ordinary cached layers at the end of the last stage."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engine.args import EngineArgs
from kvplan.engine.vllm.layout import Refused
from kvplan.model.spec import Layer, ModelSpec

_FROM_PROMPT = frozenset({"ngram", "ngram_gpu", "suffix"})


def draft_layers(model: ModelSpec, args: EngineArgs, draft: ModelSpec | None) -> Sequence[Layer]:
    """Return the layers that a draft adds: a draft model's own, the checkpoint's prediction layers, or none.

    Raises Refused where the method needs layers that the checkpoint does not carry.
    """
    if args.speculative_config is None or method(args) in _FROM_PROMPT:
        return ()
    if draft is not None:
        return draft.shape.layers
    if model.shape.draft_layers:
        return model.shape.draft_layers
    raise Refused(
        "no_draft_layers",
        f"--speculative-config names no draft model, and {model.architecture} carries no prediction layers",
        "add a model to --speculative-config",
    )


def method(args: EngineArgs) -> str:
    """Return the speculative method as written, or what stands where a model's name would."""
    section = args.speculative_config or {}
    found = section.get("method") or section.get("model") or ""
    return found if isinstance(found, str) else ""
