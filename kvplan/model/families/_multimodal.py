"""Multimodal wrappers: the language model inside keeps the KV cache, and its own family's reader reads it.

The vision or audio tower keeps none. An engine builds the inner model from the nested section's `architectures` or,
where it names none, from its `model_type`; some wrappers fix the inner architecture themselves.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.errors import UnknownArchitecture, near
from kvplan.model.families import Reader, architecture_of, reader_of, readers
from kvplan.model.fields import Fields
from kvplan.model.spec import Shape

# Model types whose image tokens attend to each other in both directions; a config's is_mm_prefix_lm comes first.
_PREFIX_LM = frozenset({"bagel", "gemma3", "molmo2", "moondream3", "paligemma"})


def language_model(config: Fields, architecture: str | None = None, *, otherwise: str | None = None) -> Shape:
    """Read the language section `config` by the reader of its own family.

    `architecture`: the inner architecture that the wrapper's class fixes, whatever the section says. `otherwise`: the
    one that stands where the section names neither an architecture nor a model_type. Raises UnknownArchitecture where
    the inner model has no reader, InvalidConfig where there is no section.
    """
    if config.inside:
        raise config.bad("architectures", "a language model's (it names another multimodal wrapper)", config.model_type)
    shape = _inner_reader(config, architecture, otherwise)(config.handed_on())
    return replace(shape, prefix_lm=shape.prefix_lm or prefix_lm(config.root))


def wraps(architecture: str | None = None, *, otherwise: str | None = None) -> Reader:
    """Return the reader of a wrapper that only delegates; the arguments are those of language_model."""

    def read(config: Fields) -> Shape:
        return language_model(config, architecture, otherwise=otherwise)

    return read


def prefix_lm(root: Fields) -> bool:
    """Say whether the multimodal positions of this checkpoint attend in both directions."""
    return root.flag("is_mm_prefix_lm", default=root.model_type in _PREFIX_LM)


def _inner_reader(config: Fields, architecture: str | None, otherwise: str | None) -> Reader:
    if architecture is not None:
        return _known(architecture)
    flat = config.mapping() is config.root.mapping()  # `architectures` and model_type are the wrapper's own there
    named = None if flat else config.maybe_texts("architectures")
    if named:
        return _known(named[0])
    implied = None if flat and config.model_type == config.root.model_type else architecture_of(config.model_type)
    if implied or otherwise:
        return _known(implied or otherwise or "")
    if flat:
        raise config.lacks("text_config")
    section = config.where
    what = f"model_type {config.model_type!r}" if config.model_type else "neither architectures nor model_type"
    raise UnknownArchitecture(f"kvplan has no reader for the language model in {section} ({what})")


def _known(name: str) -> Reader:
    reader = reader_of(name)
    if reader is None:
        shown = name if len(name) <= 80 else name[:77] + "…"
        raise UnknownArchitecture(f"kvplan has no reader for the inner architecture {shown!r}", near(name, readers()))
    return reader
