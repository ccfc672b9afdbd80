"""The readers: one file a family, each turning a config into the caches of its layers.

A reader is a function from the text section of a config (`Fields`; `fields.root` is the whole config) to a `Shape`,
registered under the architecture names that it reads. Adding a family is adding one file here; it is found by name.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from kvplan.model.fields import Fields
from kvplan.model.spec import Shape

# A head on a causal decoder changes nothing that its layers keep: the base model is the same name with another ending
# (vLLM 0.33.0, config/model.py: the suffixes that its registry exchanges).
_BASES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model")
_HEADS = (
    "ForTextEncoding", "EmbeddingModel", "ForSequenceClassification", "ForTokenClassification", "ClassificationModel",
    "ForRewardModeling", "ForRewardModel", "RewardModel", "Model",
)  # fmt: skip

Reader: TypeAlias = Callable[[Fields], Shape]
_READERS: dict[str, Reader] = {}
_MODEL_TYPES: dict[str, str] = {}


def reads(*architectures: str, model_types: tuple[str, ...] = ()) -> Callable[[Reader], Reader]:
    """Register a reader for these architectures; `model_types` name it where a config gives no architecture."""

    def register(reader: Reader) -> Reader:
        for name in architectures:
            assert name not in _READERS, f"{name} has two readers"
            _READERS[name] = reader
        for model_type in model_types:
            assert model_type not in _MODEL_TYPES, f"{model_type} has two readers"
            _MODEL_TYPES[model_type] = architectures[0]
        return reader

    return register


def readers() -> dict[str, Reader]:
    """Return all readers by architecture name."""
    for path in _files():
        import_module(f"{__name__}.{path.stem}")
    return _READERS


def reader_of(architecture: str) -> Reader | None:
    """Return the reader of an architecture, or of the decoder under its pooling, classification or reward head."""
    found = _reader(architecture)
    head = next((head for head in _HEADS if architecture.endswith(head)), None)
    if found is not None or head is None:
        return found
    stem = architecture.removesuffix(head)
    return next((reader for base in _BASES if stem and (reader := _reader(stem + base)) is not None), None)


def architecture_of(model_type: str) -> str | None:
    """Return the architecture that stands for a config without `architectures`, or None."""
    if model_type not in _MODEL_TYPES:
        _import_those_that_name(model_type)
    return _MODEL_TYPES.get(model_type)


def _reader(architecture: str) -> Reader | None:
    if architecture not in _READERS:
        _import_those_that_name(architecture)
    return _READERS.get(architecture)


def _import_those_that_name(word: str) -> None:
    """Import the files that write this name: one or two of 50, which would take 15 ms together."""
    for path in _files():
        if f'"{word}"' in path.read_text(encoding="utf-8"):
            import_module(f"{__name__}.{path.stem}")


def _files() -> list[Path]:
    return sorted(Path(__file__).parent.glob("[a-z]*.py"))
